"""The configuration of a Debezium connector: one table, in order, into the raw topic of its stream."""

import re

from headrace.connectors.cdc.source_database import SourceDatabase, slot_name
from headrace.declare.streams.change_capture import Changes
from headrace.embedded_servers.kafka_connect import SECRET_VARIABLE_PREFIX

CONNECTOR_CLASS = "io.debezium.connector.postgresql.PostgresConnector"
ROUTER_CLASS = "org.apache.kafka.connect.transforms.RegexRouter"
_FIXED_SETTINGS = {
    "connector.class": CONNECTOR_CLASS,
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
    # So that the slot advances while other tables are written and ours is not.
    "heartbeat.interval.ms": "2000",
    "retriable.restart.connector.wait.ms": "1000",
    "errors.max.retries": "-1",
    "slot.max.retries": "30",
    "slot.retry.delay.ms": "1000",
    "topic.creation.default.replication.factor": "-1",
    "topic.creation.default.partitions": "1",
    "transforms": "route",
    "transforms.route.type": ROUTER_CLASS,
}


def connector_config(app: str, database: SourceDatabase) -> dict[str, str]:
    """The settings of a table's connector; the password is a reference to an environment variable."""
    changes, connection_parts = database.changes, database.connection_parts
    table, prefix, slot = database.source.table, debezium_server_name(changes), slot_name(app, changes)
    columns = "|".join(map(re.escape, changes.row_schema.names))
    return _FIXED_SETTINGS | {
        "database.hostname": connection_parts["host"],
        "database.port": connection_parts["port"],
        "database.user": connection_parts["user"],
        "database.dbname": connection_parts["dbname"],
        "database.sslmode": connection_parts["sslmode"],
        "database.password": f"${{env:{password_variable(changes)}}}",
        "topic.prefix": prefix,
        "topic.heartbeat.prefix": "headrace.heartbeat",
        "slot.name": slot,
        "publication.name": slot,
        # An existing publication may belong to another owner, and must not be changed.
        "publication.autocreate.mode": "disabled" if database.has_publication(slot) else "filtered",
        "table.include.list": re.escape(table),
        "column.include.list": f"{re.escape(table)}\\.({columns})",
        "message.key.columns": f"{re.escape(table)}:{changes.key}",
        "transforms.route.regex": re.escape(f"{prefix}.{table}"),
        "transforms.route.replacement": changes.name,
    }


def debezium_server_name(changes: Changes) -> str:
    """The name of the database in Debezium's offsets."""
    return f"headrace.{changes.name}"


def password_variable(changes: Changes) -> str:
    """The environment variable of Connect that holds the password."""
    return SECRET_VARIABLE_PREFIX + re.sub(r"\W", "_", changes.name, flags=re.ASCII).upper()
