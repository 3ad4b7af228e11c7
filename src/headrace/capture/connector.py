"""What Debezium's connector is told: one table, in order, into the raw topic of its stream."""

import re

from headrace.capture.database import Database, name_of
from headrace.declare.changes import Changes
from headrace.local.connect import SECRETS

CLASS = "io.debezium.connector.postgresql.PostgresConnector"
ROUTER = "org.apache.kafka.connect.transforms.RegexRouter"
_STEADY = {
    "connector.class": CLASS,
    "tasks.max": "1",
    "plugin.name": "pgoutput",
    "snapshot.mode": "initial",
    "tombstones.on.delete": "false",
    "skipped.operations": "none",
    "decimal.handling.mode": "double",
    "time.precision.mode": "isostring",
    "message.prefix.exclude.list": ".*",
    "poll.interval.ms": "20",
    "status.update.interval.ms": "1000",
    # So that the slot goes on where other tables are written and ours is not.
    "heartbeat.interval.ms": "2000",
    "retriable.restart.connector.wait.ms": "1000",
    "errors.max.retries": "-1",
    "slot.max.retries": "30",
    "slot.retry.delay.ms": "1000",
    "topic.creation.default.replication.factor": "-1",
    "topic.creation.default.partitions": "1",
    "transforms": "route",
    "transforms.route.type": ROUTER,
}


def config_of(app: str, database: Database) -> dict[str, str]:
    """The settings of a table's connector; of the password they name the variable."""
    changes, parts = database.changes, database.parts
    table, prefix, slot = database.source.table, server_of(changes), name_of(app, changes)
    columns = "|".join(map(re.escape, changes.row.names))
    return _STEADY | {
        "database.hostname": parts["host"],
        "database.port": parts["port"],
        "database.user": parts["user"],
        "database.dbname": parts["dbname"],
        "database.sslmode": parts["sslmode"],
        "database.password": f"${{env:{variable_of(changes)}}}",
        "topic.prefix": prefix,
        "topic.heartbeat.prefix": "headrace.heartbeat",
        "slot.name": slot,
        "publication.name": slot,
        # One that is there may be another's, whom we may not change.
        "publication.autocreate.mode": "disabled" if database.publishes(slot) else "filtered",
        "table.include.list": re.escape(table),
        "column.include.list": f"{re.escape(table)}\\.({columns})",
        "message.key.columns": f"{re.escape(table)}:{changes.key}",
        "transforms.route.regex": re.escape(f"{prefix}.{table}"),
        "transforms.route.replacement": changes.name,
    }


def server_of(changes: Changes) -> str:
    """What Debezium calls the database in its offsets."""
    return f"headrace.{changes.name}"


def variable_of(changes: Changes) -> str:
    """The variable of Connect's environment that has the password."""
    return SECRETS + re.sub(r"\W", "_", changes.name, flags=re.ASCII).upper()
