"""Taking back rows that were told: each as a delete, which every reader understands.

TRUNCATE is told of no row, so nobody but us could act on it: the rows there were before it are told as deleted at its
place in the log. Those that came after it have a later place, and stay.
"""

from collections.abc import Iterator, Sequence
from typing import Any

import orjson

from headrace.declare.changes import CHANGED_AT, DELETED, LSN, OP, Changes
from headrace.errors import HeadraceError
from headrace.log.between import records_between
from headrace.log.offsets import Offsets
from headrace.log.produce import Producer
from headrace.log.records import Record
from headrace.tiles.events import read_event

Told = dict[str, Any]
TRUNCATED = b'"op":"t"'


def take_back(broker: str, changes: Changes, truncated: Told | None = None) -> int:
    """Tell of every row that is there that it is gone: of all, or of those there were before a TRUNCATE."""
    source = None if truncated is None else truncated["source"]
    live = _live(broker, changes)
    gone = {key: told for key, told in live.items() if source is None or told["source"][LSN] < source[LSN]}
    with Producer(broker) as producer:
        for key, told in gone.items():
            deleted = {"before": told["after"], "after": None, "op": "d", "source": source or told["source"]}
            producer.send(changes.name, orjson.dumps(deleted), key=key, partition=0)
    return len(gone)


class Truncations:
    """Hears of raw records whether a table was truncated; one that was heard of before takes nothing back again."""

    def __init__(self, broker: str, captured: Sequence[Changes]) -> None:
        self._broker, self._changes = broker, {changes.name: changes for changes in captured}

    def hear(self, records: Sequence[Record]) -> None:
        for record in records:
            if TRUNCATED not in (record.value or b""):
                continue
            told = read(record)
            if told is not None and told.get(OP) == "t":
                take_back(self._broker, self._changes[record.topic], told)


def _live(broker: str, changes: Changes) -> dict[bytes, Told]:
    """The rows there are by what readers have, and by what is to come to them."""
    told = [(record, _clean(record, changes)) for record in records_of(broker, changes.clean)]
    told += [(record, read(record)) for record in records_of(broker, changes.name)]
    live: dict[bytes, Told] = {}
    for record, said in told:
        if record.key is None or said is None or _is_older(said, live.get(record.key)):
            continue
        if said[OP] == "d":
            live.pop(record.key, None)
        elif said.get("after") is not None:
            live[record.key] = said
    return live


def _is_older(said: Told, known: Told | None) -> bool:
    """Whether a change is from before what is known of its key."""
    return known is not None and bool(said["source"][LSN] < known["source"][LSN])


def _clean(record: Record, changes: Changes) -> Told | None:
    """A clean change as Debezium told it."""
    event = read(record)
    if event is None:
        return None
    row = {name: event[name] for name in changes.row.names}
    at_us = read_event(changes.schema, record.value)[CHANGED_AT]
    source = {LSN: event[LSN], "ts_us": at_us}
    return {"after": None if event[DELETED] else row, OP: event[OP], "source": source}


def read(record: Record) -> Told | None:
    """What a record says, if that is an object."""
    try:
        said = orjson.loads(record.value or b"null")
    except ValueError:  # a dead letter
        return None
    return said if isinstance(said, dict) else None


def records_of(broker: str, topic: str) -> Iterator[Record]:
    """Everything that is in a topic now; nothing where there is none."""
    offsets = Offsets(broker)
    try:
        ends = offsets.end([topic])
    except HeadraceError:  # there is no such topic yet
        return
    yield from records_between(broker, offsets.begin([topic]), ends)
