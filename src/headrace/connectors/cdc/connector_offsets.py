"""How far Connect has read a table, as it keeps that in the log, and what to do where it cannot go on from there.

    snapshot  r r r ✗ killed                      deletes in between are in no log that anybody reads
                      └─ d d d   r r r r r │ c u d …
                         │       └ a new one, from a new slot
                         └ what the first one told is taken back

Debezium begins a snapshot anew where the last one did not end, and says nothing of rows that are gone by then; where
its slot was dropped, there is a gap. So what was told before is taken back first, and every reader ends with the rows
of the new snapshot.
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
    """Where a snapshot did not end, or the slot is gone: take back what was told, for Debezium to begin anew."""
    changes, slot = database.changes, slot_name(app, database.changes)
    connector_offset = _read_connector_offset(app, broker, changes)
    if connector_offset is not None and _is_snapshot_complete(connector_offset) and database.has_slot(slot):
        return
    if database.drop_slot(slot) or connector_offset is not None:
        LOGGER.info("%s: its snapshot did not end or its slot is gone, and it is read anew", changes.name)
    publish_deletes(broker, changes)
    if connector_offset is not None:
        with Producer(broker) as producer:
            producer.send(connect_topic(app, "offsets"), None, key=_offset_key(changes), partition=0)


def _offset_key(changes: Changes) -> bytes:
    """The key of a connector's offsets, as Connect writes it."""
    return orjson.dumps([changes.name, {"server": debezium_server_name(changes)}])


def _read_connector_offset(app: str, broker: str, changes: Changes) -> dict[str, Any] | None:
    """How far Connect has read a table; None where it has not begun."""
    key, offset_json = _offset_key(changes), None
    for record in read_topic(broker, connect_topic(app, "offsets")):
        if record.key == key:
            offset_json = record.value
    return None if offset_json is None else orjson.loads(offset_json)


def _is_snapshot_complete(offset: dict[str, Any]) -> bool:
    """Whether its snapshot has ended, as Debezium judges it."""
    return "snapshot" not in offset or bool(offset.get("last_snapshot_record") or offset.get("snapshot_completed"))
