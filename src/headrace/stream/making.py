"""What operators make, as records of the raw topics of derived streams; what they raise, as records that say so."""

from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any
from zlib import crc32

import orjson
from pyspark.sql import Row

from headrace.declare.derivation import Derived, Operation
from headrace.declare.recounted import Recount
from headrace.declare.schema import Schema
from headrace.operators.careful import Raised, Stepped, why
from headrace.operators.operator import Key, Made
from headrace.operators.rows import row_of
from headrace.stream.gate import RAISED

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
MADE = "topic string, key string, value binary, headers array<struct<key: string, value: binary>>, partition int"
ROW = Row("topic", "key", "value", "headers", "partition")
HEADER = Row("key", "value")


class Maker:
    """Writes what a step made of a key: an output nobody declared is passed over."""

    def __init__(self, operation: Operation, outputs: Sequence[Derived]) -> None:
        self._by = operation.by[0]
        self._inputs = operation.inputs
        self._outputs = {stream.output: stream for stream in outputs}
        self._first = outputs[0]

    def rows(self, key: Key, done: Stepped) -> Iterator[Row]:
        """The records of a step."""
        for one in done.made:
            stream = self._outputs.get(one.output)
            if stream is not None:
                yield self._written(key, one, stream)
        for one_raised in done.raised:
            yield self._raised(key, one_raised)

    def _written(self, key: Key, made: Made, stream: Derived) -> Row:
        """What is made, or what there is of it where it cannot be written: a time after 9999, a value JSON has not."""
        try:
            return self._made(key, made, stream)
        except Exception as failure:  # noqa: BLE001  # what an operator makes may be anything
            return _aside(self._first.name, key, orjson.dumps(repr(made)), why(failure))

    def _made(self, key: Key, made: Made, stream: Derived) -> Row:
        row = row_of(made, key, self._by, stream)
        return ROW(stream.name, _text(row[stream.key]), as_json(row, stream.schema), None, None)

    def _raised(self, key: Key, raised: Raised) -> Row:
        event = raised.event
        if event is None:
            return _aside(self._first.name, key, raised.kept, raised.why)
        stream = self._inputs[event.source]
        place = f"{stream.name}-{event.partition}@{event.offset}"
        value = as_json(event.values, stream.schema)
        return _aside(self._first.name, key, value, f"{raised.why} (at {place})")


class TileMaker:
    """Writes the tiles of a view of a captured table; a change that cannot be taken is a dead letter of the table."""

    def __init__(self, what: Recount, partitions: int) -> None:
        self._view, self._changes, self._partitions = what.view, what.changes, partitions

    def rows(self, key: Key, done: Stepped) -> Iterator[Row]:
        """The records of a step: those of one entity go to one partition."""
        partition = crc32(orjson.dumps(key)) % self._partitions
        for one in done.made:
            yield ROW(self._view.topic, one.values["tile"].decode(), one.values["value"], None, partition)
        for raised in done.raised:
            yield self._letter(key, raised)

    def _letter(self, key: Key, raised: Raised) -> Row:
        event, stream = raised.event, self._changes
        value = raised.kept if event is None else as_json(event.values, stream.schema)
        told = {
            "offset": 0 if event is None else event.offset,
            "arrival": 0 if event is None else event.arrival_us,
            "reason": f"raised: {self._view.name}: {raised.why}",
            "topic": stream.name,
            "partition": 0 if event is None else event.partition,
        }
        headers = [HEADER(f"headrace.{name}", str(said).encode()) for name, said in told.items()]
        return ROW(stream.dead, _text(key[0]), value, headers, told["partition"])


def _aside(topic: str, key: Key, value: bytes, reason: str) -> Row:
    """A record of a derived stream that says what was raised."""
    return ROW(topic, _text(key[0]), value, [HEADER(RAISED, reason.encode())], None)


def as_json(said: Mapping[str, Any], schema: Schema) -> bytes:
    """The columns of a schema that are said, times in ISO 8601; JSON has no NaN, which is null."""
    times = schema.times
    return orjson.dumps({name: _iso(said.get(name)) if name in times else said.get(name) for name in schema.names})


def _iso(at_us: int | None) -> str | None:
    return None if at_us is None else (EPOCH + timedelta(microseconds=at_us)).isoformat(timespec="microseconds")


def _text(value: object) -> str | None:
    """A key as producers write it."""
    return value if value is None or isinstance(value, str) else orjson.dumps(value).decode()
