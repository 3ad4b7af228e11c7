"""Records of the log as rows for a target, each knowing its place; what the gate wrote again is none."""

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any, NamedTuple

import orjson

from headrace.declare.schema import Kind, Schema
from headrace.declare.sink import Sink
from headrace.declare.stream import Stream
from headrace.log.ledger import OFFSET
from headrace.log.letters import ORIGIN
from headrace.log.placed import Place, Places
from headrace.log.records import Partition, Record
from headrace.tiles.events import Unreadable, read_event
from headrace.tiles.finish import FIRST_US, LAST_US, moment
from headrace.tiles.frequent import key_text

Values = dict[str, Any]
TIMES = {"event_time": "event_time_us", "arrival": "arrival_us", "decided_at": "decided_at_us"}


class Row(NamedTuple):
    """One row: the record it was read from, its values, the place it first had, and where its reader is after it.

    Times are datetimes. A row with a `problem` fits no target.
    """

    record: Record
    values: Values
    place: str
    after: Place
    problem: str | None = None

    @property
    def at(self) -> Partition:
        """The partition it was read from."""
        return Partition(self.record.topic, self.record.partition)

    @property
    def partition(self) -> int:
        """Of the place it first had."""
        return int(self.place.rpartition("-")[2].partition("@")[0])

    @property
    def offset(self) -> int:
        """Of the place it first had."""
        return int(self.place.rpartition("@")[2])


class Reader:
    """Reads the records of what a sink is of."""

    def __init__(self, sink: Sink) -> None:
        self._sink, self._schema = sink, sink.schema
        self._raw = sink.of.name if isinstance(sink.of, Stream) else sink.topic

    def begins(self, places: Mapping[Partition, Place]) -> Places:
        """Where reading begins, if rows are wanted from these places on."""
        return dict(places)

    def learn(self, records: Sequence[Record]) -> None:
        """Hear of records before their rows are asked for; those before the wanted places as well."""

    def row(self, record: Record, place: Place) -> tuple[Row | None, Place]:
        """The row of a record, None for one that is no news, and where the reader is after it."""
        raw = self._raw_offset(record)
        if raw is None or raw <= place.last_raw:
            return None, Place(record.offset + 1, place.last_raw)
        after = Place(record.offset + 1, raw if record.topic == self._sink.topic else place.last_raw)
        place_in_raw = self._first_place(record, raw)
        try:
            values = self._values(record)
        except Unreadable as reason:
            return Row(record, {}, place_in_raw, after, str(reason)), after
        return Row(record, values, place_in_raw, after, self._null_key(values)), after

    def _raw_offset(self, record: Record) -> int | None:
        """What tells replays from news; None for a record that no gate wrote."""
        if record.topic != self._sink.topic or not isinstance(self._sink.of, Stream):
            return record.offset
        written = record.header(OFFSET)
        return None if written is None else int(written)

    def _first_place(self, record: Record, raw: int) -> str:
        """Where its event stands in the raw log; of one that was sent again, where it stood before."""
        origin = record.header(ORIGIN)
        if record.topic == self._sink.topic or origin is None:
            return f"{self._raw}-{record.partition}@{raw}"
        return origin.decode()

    def _values(self, record: Record) -> Values:
        if isinstance(self._sink.of, Stream):
            return _timed(self._schema, read_event(self._schema, record.value))
        return _timed(self._schema, prediction_of(record.value))

    def _null_key(self, values: Values) -> str | None:
        missing = [name for name in self._sink.key if values[name] is None]
        return f"null-key: column {missing[0]} is of the key, and is null" if missing else None


def prediction_of(value: bytes | None) -> Values:
    """A prediction as columns; what it was made from is JSON."""
    try:
        said = orjson.loads(value or b"")
        flat: Values = said | {column: said[field] for column, field in TIMES.items()}
        flat["event_id"] = key_text(said["event_id"])
        flat["degraded"] = ",".join(said["degraded"])
        flat["features"] = orjson.dumps(said["features"]).decode()
    except (ValueError, KeyError, TypeError) as wrong:
        raise Unreadable(f"no-prediction: {type(wrong).__name__} {wrong}") from wrong
    return flat


def _timed(schema: Schema, values: Mapping[str, Any]) -> Values:
    return {
        column.name: _time(column.name, values[column.name]) if column.kind is Kind.TIMESTAMP else values[column.name]
        for column in schema
    }


def _time(name: str, time_us: int | None) -> datetime | None:
    if time_us is None:
        return None
    if not FIRST_US <= time_us <= LAST_US:
        raise Unreadable(f"beyond-calendar: column {name} is {time_us} µs from 1970, which no calendar has")
    return moment(time_us)
