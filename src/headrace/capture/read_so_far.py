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
from collections.abc import Iterator
from typing import Any

import orjson

from headrace.capture.connector import server_of
from headrace.capture.database import Database, name_of
from headrace.declare.changes import CHANGED_AT, DELETED, LSN, OP, Changes
from headrace.errors import HeadraceError
from headrace.local.connect import topic_of
from headrace.log.between import records_between
from headrace.log.offsets import Offsets
from headrace.log.produce import Producer
from headrace.log.records import Record
from headrace.tiles.events import read_event

LOGGER = logging.getLogger("headrace.capture")


def begin_again_where_needed(app: str, broker: str, database: Database) -> None:
    """Where a snapshot did not end, or the slot is gone: take back what was told, for Debezium to begin anew."""
    changes, slot = database.changes, name_of(app, database.changes)
    found = _offset(app, broker, changes)
    if found is not None and _is_complete(found) and database.has(slot):
        return
    if database.drop(slot) or found is not None:
        LOGGER.info("%s: its snapshot did not end or its slot is gone, and it is read anew", changes.name)
    with Producer(broker) as producer:
        for key, taken_back in _live(broker, changes).items():
            producer.send(changes.name, orjson.dumps(taken_back), key=key, partition=0)
        producer.flush()
        if found is not None:
            producer.send(topic_of(app, "offsets"), None, key=_key(changes), partition=0)


def _key(changes: Changes) -> bytes:
    """The key of a connector's offsets, as Connect writes it."""
    return orjson.dumps([changes.name, {"server": server_of(changes)}])


def _offset(app: str, broker: str, changes: Changes) -> dict[str, Any] | None:
    """How far Connect has read a table; None where it has not begun."""
    key, found = _key(changes), None
    for record in _records(broker, topic_of(app, "offsets")):
        if record.key == key:
            found = record.value
    return None if found is None else orjson.loads(found)


def _is_complete(offset: dict[str, Any]) -> bool:
    """Whether its snapshot has ended, as Debezium judges it."""
    return "snapshot" not in offset or bool(offset.get("last_snapshot_record") or offset.get("snapshot_completed"))


def _live(broker: str, changes: Changes) -> dict[bytes, dict[str, Any]]:
    """Of each row that is there by what was told so far, that it is gone: what readers have, and what is to come."""
    told = [(record, _clean(record, changes)) for record in _records(broker, changes.clean)]
    told += [(record, _read(record)) for record in _records(broker, changes.name)]
    live: dict[bytes, dict[str, Any]] = {}
    for record, said in told:
        if record.key is None or said is None:
            continue
        if said.get("op") == "d":
            live.pop(record.key, None)
        elif said.get("after") is not None:
            live[record.key] = {"before": said["after"], "after": None, "op": "d", "source": said["source"]}
    return live


def _clean(record: Record, changes: Changes) -> dict[str, Any] | None:
    """A clean change as Debezium told it."""
    event = _read(record)
    if event is None:
        return None
    row = {name: event[name] for name in changes.row.names}
    at_us = read_event(changes.schema, record.value)[CHANGED_AT]
    source = {LSN: event[LSN], "ts_us": at_us}
    return {"after": None if event[DELETED] else row, "op": event[OP], "source": source}


def _read(record: Record) -> dict[str, Any] | None:
    try:
        said = orjson.loads(record.value or b"null")
    except ValueError:  # a dead letter
        return None
    return said if isinstance(said, dict) else None


def _records(broker: str, topic: str) -> Iterator[Record]:
    """Everything that is in a topic now; nothing where there is none."""
    offsets = Offsets(broker)
    try:
        ends = offsets.end([topic])
    except HeadraceError:  # there is no such topic yet
        return
    yield from records_between(broker, offsets.begin([topic]), ends)
