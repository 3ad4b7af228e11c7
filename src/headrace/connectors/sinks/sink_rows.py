"""Reads records as rows for a target, each with its original location; skips the gate's duplicates."""

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any, NamedTuple

import orjson

from headrace.aggregates.sketches.frequent_items import key_text
from headrace.declare.sinks.sink import Sink
from headrace.declare.streams.schema import Kind, Schema
from headrace.declare.streams.stream import Stream
from headrace.kafka.consumers.external_offset_consumer import ExternalOffset, ExternalOffsets
from headrace.kafka.headers import OFFSET_HEADER, ORIGIN_HEADER
from headrace.kafka.record import ConsumerRecord, Partition
from headrace.tiles.events.event_parser import InvalidEventError, parse_event
from headrace.tiles.finish import MAX_DATETIME_US, MIN_DATETIME_US, to_datetime

SinkRowValues = dict[str, Any]
PREDICTION_TIME_FIELDS = {"event_time": "event_time_us", "arrival": "arrival_us", "decided_at": "decided_at_us"}


class SinkRow(NamedTuple):
    """One row: its record, its values, its original location, and the reader's offset after it.

    Times are datetimes. No target accepts a row with a `problem`.
    """

    record: ConsumerRecord
    values: SinkRowValues
    location: str
    offset_after: ExternalOffset
    problem: str | None = None

    @property
    def source_partition(self) -> Partition:
        """The partition it was read from."""
        return Partition(self.record.topic, self.record.partition)

    @property
    def partition(self) -> int:
        """The partition of its original location."""
        return int(self.location.rpartition("-")[2].partition("@")[0])

    @property
    def offset(self) -> int:
        """The offset of its original location."""
        return int(self.location.rpartition("@")[2])


class SinkRowReader:
    """Reads the records of a sink's source."""

    def __init__(self, sink: Sink) -> None:
        self._sink, self._schema = sink, sink.schema
        self._raw_topic = sink.of.name if isinstance(sink.of, Stream) else sink.source_topic

    def start_offsets(self, offsets: Mapping[Partition, ExternalOffset]) -> ExternalOffsets:
        """The offsets to read from, to produce the rows from the given offsets on."""
        return dict(offsets)

    def observe_records(self, records: Sequence[ConsumerRecord]) -> None:
        """Observe the records of a batch before their rows are read, including those before the start offsets."""

    def read_row(self, record: ConsumerRecord, offset: ExternalOffset) -> tuple[SinkRow | None, ExternalOffset]:
        """The row of a record, None for a duplicate, and the reader's offset after it."""
        raw_offset = self._raw_offset(record)
        if raw_offset is None or raw_offset <= offset.last_raw_offset:
            return None, ExternalOffset(record.offset + 1, offset.last_raw_offset)
        offset_after = ExternalOffset(
            record.offset + 1, raw_offset if record.topic == self._sink.source_topic else offset.last_raw_offset
        )
        location = self._original_location(record, raw_offset)
        try:
            values = self._read_values(record)
        except InvalidEventError as error:
            return SinkRow(record, {}, location, offset_after, str(error)), offset_after
        return SinkRow(record, values, location, offset_after, self._null_key_problem(values)), offset_after

    def _raw_offset(self, record: ConsumerRecord) -> int | None:
        """The raw offset, which identifies duplicates; None for a record that no gate wrote."""
        if record.topic != self._sink.source_topic or not isinstance(self._sink.of, Stream):
            return record.offset
        return OFFSET_HEADER.read(record)

    def _original_location(self, record: ConsumerRecord, raw_offset: int) -> str:
        """The location of its event in the raw topic; of a redelivered event, its first location."""
        origin = ORIGIN_HEADER.read(record)
        if record.topic == self._sink.source_topic or origin is None:
            return f"{self._raw_topic}-{record.partition}@{raw_offset}"
        return origin

    def _read_values(self, record: ConsumerRecord) -> SinkRowValues:
        if isinstance(self._sink.of, Stream):
            return _convert_timestamps(self._schema, parse_event(self._schema, record.value))
        return _convert_timestamps(self._schema, parse_prediction(record.value))

    def _null_key_problem(self, values: SinkRowValues) -> str | None:
        null_columns = [name for name in self._sink.key if values[name] is None]
        return f"null-key: column {null_columns[0]} is of the key, and is null" if null_columns else None


def parse_prediction(value: bytes | None) -> SinkRowValues:
    """A prediction as columns; its features are JSON."""
    try:
        prediction = orjson.loads(value or b"")
        columns: SinkRowValues = prediction | {
            column: prediction[field] for column, field in PREDICTION_TIME_FIELDS.items()
        }
        columns["event_id"] = key_text(prediction["event_id"])
        columns["degraded"] = ",".join(prediction["degraded"])
        columns["features"] = orjson.dumps(prediction["features"]).decode()
    except (ValueError, KeyError, TypeError) as error:
        raise InvalidEventError(f"no-prediction: {type(error).__name__} {error}") from error
    return columns


def _convert_timestamps(schema: Schema, values: Mapping[str, Any]) -> SinkRowValues:
    return {
        column.name: _to_column_datetime(column.name, values[column.name])
        if column.kind is Kind.TIMESTAMP
        else values[column.name]
        for column in schema
    }


def _to_column_datetime(name: str, time_us: int | None) -> datetime | None:
    if time_us is None:
        return None
    if not MIN_DATETIME_US <= time_us <= MAX_DATETIME_US:
        raise InvalidEventError(f"beyond-calendar: column {name} is {time_us} µs from 1970, outside the calendar")
    return to_datetime(time_us)
