"""Encodes outputs of operators as raw records of derived streams, and their errors as records with a reason."""

from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any
from zlib import crc32

import orjson
from pyspark.sql import Row

from headrace.declare.features.retractable_views import RetractableView
from headrace.declare.operations.derived_stream import DerivedStream, StreamOperation
from headrace.declare.streams.schema import Schema
from headrace.kafka.headers import RAISED_HEADER, SPARK_HEADERS_TYPE, dead_letter_headers
from headrace.kafka.record import Partition
from headrace.operators.error_isolation import OperatorStepResult, StepFailure, failure_reason
from headrace.operators.operator import Key, OutputEvent
from headrace.operators.output_rows import to_output_row

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
RECORD_SCHEMA = f"topic string, key string, value binary, headers {SPARK_HEADERS_TYPE}, partition int"
RECORD_ROW = Row("topic", "key", "value", "headers", "partition")
HEADER_ROW = Row("key", "value")


class OutputEncoder:
    """Encodes the step results of a key; undeclared outputs are skipped."""

    def __init__(self, operation: StreamOperation, outputs: Sequence[DerivedStream]) -> None:
        self._key_columns = operation.by[0]
        self._inputs = operation.inputs
        self._streams_by_output = {stream.output: stream for stream in outputs}
        self._first_stream = outputs[0]

    def to_records(self, key: Key, step_result: OperatorStepResult) -> Iterator[Row]:
        """The records of a step."""
        for output in step_result.outputs:
            stream = self._streams_by_output.get(output.output)
            if stream is not None:
                yield self._encode_or_reject(key, output, stream)
        for failure in step_result.failures:
            yield self._encode_failure(key, failure)

    def _encode_or_reject(self, key: Key, output: OutputEvent, stream: DerivedStream) -> Row:
        """An output, or a failure record where it cannot be encoded: a time after 9999, a value JSON has not."""
        try:
            return self._encode_output(key, output, stream)
        except Exception as error:  # noqa: BLE001  # an operator's output may be anything
            return _failure_record(self._first_stream.name, key, orjson.dumps(repr(output)), failure_reason(error))

    def _encode_output(self, key: Key, output: OutputEvent, stream: DerivedStream) -> Row:
        output_row = to_output_row(output, key, self._key_columns, stream)
        return RECORD_ROW(
            stream.name, _to_key_text(output_row[stream.key]), to_json_bytes(output_row, stream.schema), None, None
        )

    def _encode_failure(self, key: Key, failure: StepFailure) -> Row:
        event = failure.event
        if event is None:
            return _failure_record(self._first_stream.name, key, failure.encoded_state, failure.reason)
        stream = self._inputs[event.input_index]
        location = f"{stream.name}-{event.partition}@{event.offset}"
        value = to_json_bytes(event.values, stream.schema)
        return _failure_record(self._first_stream.name, key, value, f"{failure.reason} (at {location})")


class TileOutputEncoder:
    """Encodes the tiles of a view of a captured table; an unusable change becomes a dead letter of the table."""

    def __init__(self, retractable_view: RetractableView, partitions: int) -> None:
        self._view, self._changes, self._partitions = retractable_view.view, retractable_view.changes, partitions

    def to_records(self, key: Key, step_result: OperatorStepResult) -> Iterator[Row]:
        """The records of a step: those of one entity go to one partition."""
        partition = crc32(orjson.dumps(key)) % self._partitions
        for output in step_result.outputs:
            yield RECORD_ROW(self._view.topic, output.values["tile"].decode(), output.values["value"], None, partition)
        for failure in step_result.failures:
            yield self._dead_letter(key, failure)

    def _dead_letter(self, key: Key, failure: StepFailure) -> Row:
        event, stream = failure.event, self._changes
        value = failure.encoded_state if event is None else to_json_bytes(event.values, stream.schema)
        partition, offset, arrival_us = (
            (0, 0, 0) if event is None else (event.partition, event.offset, event.arrival_us)
        )
        reason = f"raised: {self._view.name}: {failure.reason}"
        headers = dead_letter_headers(Partition(stream.name, partition), offset, arrival_us, reason)
        rows = [HEADER_ROW(*header) for header in headers]
        return RECORD_ROW(stream.dead, _to_key_text(key[0]), value, rows, partition)


def _failure_record(topic: str, key: Key, value: bytes, reason: str) -> Row:
    """A record of a derived stream with the reason of a failure."""
    return RECORD_ROW(topic, _to_key_text(key[0]), value, [HEADER_ROW(*RAISED_HEADER.write(reason))], None)


def to_json_bytes(values: Mapping[str, Any], schema: Schema) -> bytes:
    """The given columns of a schema as JSON, times in ISO 8601; NaN becomes null."""
    times = schema.timestamp_names
    return orjson.dumps(
        {name: _to_iso(values.get(name)) if name in times else values.get(name) for name in schema.names}
    )


def _to_iso(at_us: int | None) -> str | None:
    return None if at_us is None else (EPOCH + timedelta(microseconds=at_us)).isoformat(timespec="microseconds")


def _to_key_text(value: object) -> str | None:
    """A key as producers write it."""
    return value if value is None or isinstance(value, str) else orjson.dumps(value).decode()
