"""Reads Connect's offset of a table, and restarts a snapshot that cannot be resumed from it.

    snapshot  r r r ✗ killed                      nothing reads the deletes in between
                      └─ d d d   r r r r r │ c u d …
                         │       └ a new one, from a new slot
                         └ deletes retract the rows of the first one

Debezium restarts an incomplete snapshot, and writes no delete for rows that were removed in the meantime; after a
dropped slot there is a gap. So the rows published before are retracted first, and every reader ends with the rows of
the new snapshot.
"""

import logging
from typing import Any

import orjson

from headrace.connectors.cdc.connector_config import debezium_server_name
from headrace.connectors.cdc.source_database import SourceDatabase, slot_name
from headrace.connectors.cdc.truncate_handling import publish_deletes, read_topic
from headrace.declare.streams.change_capture import Changes
from headrace.embedded_servers.kafka_connect import connect_topic
from headrace.kafka.producer.producer import Producer

LOGGER = logging.getLogger("headrace.capture")


def restart_incomplete_snapshot(app: str, broker: str, database: SourceDatabase) -> None:
    """After an incomplete snapshot or a lost slot: retract the published rows and reset the offset."""
    changes, slot = database.changes, slot_name(app, database.changes)
    connector_offset = _read_connector_offset(app, broker, changes)
    if connector_offset is not None and _is_snapshot_complete(connector_offset) and database.has_slot(slot):
        return
    if database.drop_slot(slot) or connector_offset is not None:
        LOGGER.info("Restarting the snapshot of %s: it did not complete, or its slot is missing", changes.name)
    publish_deletes(broker, changes)
    if connector_offset is not None:
        with Producer(broker) as producer:
            producer.send(connect_topic(app, "offsets"), None, key=_offset_key(changes), partition=0)


def _offset_key(changes: Changes) -> bytes:
    """The key of a connector's offsets in Connect's offset topic."""
    return orjson.dumps([changes.name, {"server": debezium_server_name(changes)}])


def _read_connector_offset(app: str, broker: str, changes: Changes) -> dict[str, Any] | None:
    """Connect's offset of a table; None if there is none."""
    key, offset_json = _offset_key(changes), None
    for record in read_topic(broker, connect_topic(app, "offsets")):
        if record.key == key:
            offset_json = record.value
    return None if offset_json is None else orjson.loads(offset_json)


def _is_snapshot_complete(offset: dict[str, Any]) -> bool:
    """Whether Debezium's offset marks the snapshot as complete."""
    return "snapshot" not in offset or bool(offset.get("last_snapshot_record") or offset.get("snapshot_completed"))
