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

from headrace.capture.connector import server_of
from headrace.capture.database import Database, name_of
from headrace.capture.taking_back import records_of, take_back
from headrace.declare.changes import Changes
from headrace.local.connect import topic_of
from headrace.log.produce import Producer

LOGGER = logging.getLogger("headrace.capture")


def begin_again_where_needed(app: str, broker: str, database: Database) -> None:
    """Where a snapshot did not end, or the slot is gone: take back what was told, for Debezium to begin anew."""
    changes, slot = database.changes, name_of(app, database.changes)
    found = _offset(app, broker, changes)
    if found is not None and _is_complete(found) and database.has(slot):
        return
    if database.drop(slot) or found is not None:
        LOGGER.info("%s: its snapshot did not end or its slot is gone, and it is read anew", changes.name)
    take_back(broker, changes)
    if found is not None:
        with Producer(broker) as producer:
            producer.send(topic_of(app, "offsets"), None, key=_key(changes), partition=0)


def _key(changes: Changes) -> bytes:
    """The key of a connector's offsets, as Connect writes it."""
    return orjson.dumps([changes.name, {"server": server_of(changes)}])


def _offset(app: str, broker: str, changes: Changes) -> dict[str, Any] | None:
    """How far Connect has read a table; None where it has not begun."""
    key, found = _key(changes), None
    for record in records_of(broker, topic_of(app, "offsets")):
        if record.key == key:
            found = record.value
    return None if found is None else orjson.loads(found)


def _is_complete(offset: dict[str, Any]) -> bool:
    """Whether its snapshot has ended, as Debezium judges it."""
    return "snapshot" not in offset or bool(offset.get("last_snapshot_record") or offset.get("snapshot_completed"))
