"""Runs an operator on Spark: events by bucket of their key, state by key, and a clock that only clock rows advance.

payments.clean ──┐
payments.clean ──┐
rates.clean ─────┼──▶ rows by bucket of their key ──▶ bucket 7   state: key ──▶ the operator's state of it
NAME.clock ──────┘                                               due:   time ──▶ keys with a timer at that time

A call has many keys: rows cross to Python as one JSON text each, and the state of many keys is read at once.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import orjson
from pyspark.sql import Column, DataFrame, Row, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.streaming.stateful_processor import (
    ExpiredTimerInfo,
    StatefulProcessor,
    StatefulProcessorHandle,
    TimerValues,
)

from headrace.declare.durations import UNITS_US
from headrace.declare.features.retractable_views import RetractableView
from headrace.declare.features.view import View
from headrace.declare.operations.derived_stream import DerivedStream, StreamOperation, has_recorded_input
from headrace.declare.streams.schema import Kind
from headrace.declare.streams.stream import Stream
from headrace.kafka.headers import ARRIVAL_HEADER, OFFSET_HEADER
from headrace.operators.error_isolation import OperatorStepResult, advance_isolating_errors
from headrace.operators.factory import create_operator
from headrace.operators.operator import InputEvent, Key, Operator
from headrace.spark.execution.watermark_delay import DRAINING_MARGIN_US
from headrace.spark.gate.header_columns import gate_header
from headrace.spark.gate.json_parser import parse_json, to_event
from headrace.spark.gate.kafka_source import read_record_stream
from headrace.spark.gate.replay_filter import ReplayFilter
from headrace.spark.stateful.output_encoding import RECORD_SCHEMA, OutputEncoder, TileOutputEncoder
from headrace.spark.stateful.paged_state import KeyStateEntry, PagedState
from headrace.spark.stateful.timers import KeyTimers

BUCKET_COUNT, STATE_PARTITIONS = 64, 2
MAX_BATCH_RECORDS = 20_000  # limits the memory and the duration of a batch
# Keys that are due within a second of each other share a timer. More than an hour ahead, an hour's resolution is
# enough: recorded time passes days in a batch, and one timer then finds what is due.
TIMER_STEP_US, DISTANT_TIMER_STEP_US = UNITS_US["s"], UNITS_US["h"]
CLOCK_COLUMN, EVENT_COLUMN, BUCKET_COLUMN, KEY_COLUMN = "clocked", "said", "bucket", "key"


@dataclass(frozen=True)
class KeyedOperatorConfig:
    """An operation, the streams it writes, and their broker."""

    operation: StreamOperation
    outputs: tuple[DerivedStream, ...]
    broker: str
    max_batch_records: int = MAX_BATCH_RECORDS
    changelog_partitions: int = 1  # of a view that it computes

    @property
    def input_topics(self) -> list[str]:
        """The topics it reads, without the clock."""
        return list(dict.fromkeys(stream.clean for stream in self.operation.inputs))

    @property
    def view(self) -> View | None:
        """The view of a captured table that it computes, if it is one."""
        spec = self.operation.spec
        return spec.view if isinstance(spec, RetractableView) else None

    @property
    def output_encoder(self) -> OutputEncoder | TileOutputEncoder:
        """The encoder of its outputs."""
        spec = self.operation.spec
        if isinstance(spec, RetractableView):
            return TileOutputEncoder(spec, self.changelog_partitions)
        return OutputEncoder(self.operation, self.outputs)

    @cached_property
    def is_recorded(self) -> bool:
        """Whether arrivals are recorded history: then records advance the clock, not the current time."""
        return has_recorded_input(self.operation.inputs)

    @property
    def watermark_margin_us(self) -> int:
        """How far partitions may be apart where recorded time passes faster than the clock."""
        return DRAINING_MARGIN_US if self.is_recorded else 0


def run_keyed_operator(
    spark: SparkSession, config: KeyedOperatorConfig, start_offsets: Mapping[str, Mapping[int, int]], run_id: str
) -> DataFrame:
    """Kafka records of the inputs → Kafka records of the outputs; only clock records of this run count."""
    topics, start_json = (
        [*config.input_topics, config.operation.clock],
        orjson.dumps(start_offsets, option=orjson.OPT_NON_STR_KEYS),
    )
    records = read_record_stream(spark, config.broker, topics, start_json.decode(), config.max_batch_records)
    rows = _to_rows(records, config, run_id)
    clocked_rows = rows.withWatermark(CLOCK_COLUMN, f"{config.watermark_margin_us} microseconds").select(
        BUCKET_COLUMN, EVENT_COLUMN
    )
    return clocked_rows.groupBy(BUCKET_COLUMN).transformWithState(
        BucketProcessor(config), RECORD_SCHEMA, "Update", "EventTime"
    )


def _to_rows(records: DataFrame, config: KeyedOperatorConfig, run_id: str) -> DataFrame:
    """Events and clocks: a bucket, the event, and the time that advances the clock."""
    is_clock = (F.col("topic") == config.operation.clock) & (F.col("key").cast("string") == run_id)
    clock_us = F.when(is_clock, F.col("value").cast("string").cast("bigint") + config.watermark_margin_us)
    input_records, key, event_text = _read_inputs(_parse_inputs(records, config.operation), config)
    if config.is_recorded:
        clock_us = F.coalesce(clock_us, F.when(event_text.isNotNull(), gate_header(ARRIVAL_HEADER)))
    rows = input_records.select(
        F.pmod(F.xxhash64(key), F.lit(BUCKET_COUNT)).cast("int").alias(BUCKET_COLUMN),
        F.when(key.isNotNull(), event_text).alias(EVENT_COLUMN),
        F.timestamp_micros(clock_us).alias(CLOCK_COLUMN),
    )
    return rows.where(F.col(EVENT_COLUMN).isNotNull() | F.col(CLOCK_COLUMN).isNotNull())


def _read_inputs(records: DataFrame, config: KeyedOperatorConfig) -> tuple[DataFrame, Column, Column]:
    """Records with the key and the event of their input; a topic that is several inputs is read as often."""
    input_columns = [_input_columns(number, config.operation) for number in range(len(config.operation.inputs))]
    if len(config.input_topics) < len(input_columns):
        input_records = records.withColumn(
            "side", F.explode(F.array(*(F.struct(*key_and_event) for key_and_event in input_columns)))
        )
        return input_records, F.col("side").getField(KEY_COLUMN), F.col("side").getField(EVENT_COLUMN)
    key, event_text = (F.coalesce(*columns) for columns in zip(*input_columns, strict=True))
    return records, key, event_text


def _input_columns(input_number: int, operation: StreamOperation) -> tuple[Column, Column]:
    """The key and the event of an input's record; null for other records."""
    stream = operation.inputs[input_number]
    stream_index = list(dict.fromkeys(operation.inputs)).index(stream)
    is_of_stream, event = F.col("topic") == stream.clean, F.col(f"event_{stream_index}")
    key, event_text = _key_text(event, operation, input_number), _event_text(input_number, event, stream)
    return F.when(is_of_stream, key).alias(KEY_COLUMN), F.when(is_of_stream, event_text).alias(EVENT_COLUMN)


def _parse_inputs(records: DataFrame, operation: StreamOperation) -> DataFrame:
    """Records with the event of each input, parsed in a separate step.

    Within a condition Spark would parse again for every column that is read from it: eighteen times as slow.
    """
    json_columns = [
        F.when(F.col("topic") == stream.clean, parse_json(F.col("value"), stream)).alias(f"json_{number}")
        for number, stream in enumerate(dict.fromkeys(operation.inputs))
    ]
    event_columns = [
        to_event(F.col(f"json_{number}"), stream).alias(f"event_{number}")
        for number, stream in enumerate(dict.fromkeys(operation.inputs))
    ]
    return records.select("*", *json_columns).select("*", *event_columns)


def _key_text(event: Column, operation: StreamOperation, input_number: int) -> Column:
    """The key columns of an event as text; null where a required one is null."""
    columns = [event.getField(name) for name in operation.by[input_number]]
    text = F.to_json(F.struct(*(column.alias(f"k{number}") for number, column in enumerate(columns))))
    for column in () if operation.accepts_null_keys else columns:
        text = F.when(column.isNotNull(), text)
    return text


def _event_text(input_number: int, event: Column, stream: Stream) -> Column:
    """An event as JSON: its source, arrival and offset, and its values, times in microseconds."""
    values = [
        (F.unix_micros(field) if column.kind is Kind.TIMESTAMP else field).alias(column.name)
        for column in stream.schema
        for field in [event.getField(column.name)]
    ]
    position_columns = [gate_header(ARRIVAL_HEADER), F.col("partition"), gate_header(OFFSET_HEADER)]
    texts = [column.cast("string") for column in (F.lit(input_number), *position_columns)]
    values_json = F.to_json(F.struct(*values), {"ignoreNullFields": "false"})
    return F.concat(F.lit("["), *(part for text in texts for part in (text, F.lit(","))), values_json, F.lit("]"))


class BucketProcessor(StatefulProcessor):
    """Runs the operator of each key of a bucket."""

    def __init__(self, config: KeyedOperatorConfig) -> None:
        self._operator: Operator[Any] = create_operator(config.operation)
        self._event_reader, self._output_encoder = OperatorEventReader(config.operation), config.output_encoder

    def init(self, handle: StatefulProcessorHandle) -> None:
        self._state, self._timers, self._replay_filter = PagedState(handle), KeyTimers(handle), ReplayFilter(handle)

    def handleInputRows(self, key: Any, rows: Iterator[Row], timerValues: TimerValues) -> Iterator[Row]:  # noqa: N802, N803, ARG002  # Spark's names
        events = self._replay_filter.drop_replays(
            self._event_reader.read_event(event_text) for _bucket, event_text in rows if event_text is not None
        )
        events_by_key: dict[str, list[InputEvent]] = {}
        for event in events:
            events_by_key.setdefault(self._event_reader.to_key_text(event), []).append(event)
        yield from self._step_keys(events_by_key.items(), timerValues)

    def handleExpiredTimer(  # noqa: N802
        self,
        key: Any,  # noqa: ARG002
        timerValues: TimerValues,  # noqa: N803
        expiredTimerInfo: ExpiredTimerInfo,  # noqa: N803
    ) -> Iterator[Row]:
        keys = self._timers.pop_keys(expiredTimerInfo.getExpiryTimeInMs() * 1000)
        yield from self._step_keys(((key_text, []) for key_text in keys), timerValues)

    def close(self) -> None:
        pass

    def _step_keys(
        self, events_by_key: Iterable[tuple[str, list[InputEvent]]], timer_values: TimerValues
    ) -> Iterator[Row]:
        clock_us = max(0, timer_values.getCurrentWatermarkInMs()) * 1000
        keys_by_timer: dict[int, list[str]] = {}
        self._state.open()
        for key_text, events in events_by_key:
            saved_entry = self._state.get(key_text)
            if saved_entry is None and not events:  # removed since its timer was registered
                continue
            key: Key = tuple(orjson.loads(key_text))
            step_result = advance_isolating_errors(
                self._operator,
                key,
                None if saved_entry is None else saved_entry.encoded_state.encode(),
                events,
                clock_us,
            )
            yield from self._output_encoder.to_records(key, step_result)
            timer_us = self._save_step_result(key_text, step_result, saved_entry, clock_us)
            if timer_us is not None:
                keys_by_timer.setdefault(timer_us, []).append(key_text)
        self._state.close()
        for at_us, keys in keys_by_timer.items():
            self._timers.register(at_us, keys)

    def _save_step_result(
        self, key_text: str, step_result: OperatorStepResult, saved_entry: KeyStateEntry | None, clock_us: int
    ) -> int | None:
        """Save a key's new state, and register its timer unless there is one.

        A key with an earlier timer than it needs is processed then, and gets a new timer.
        """
        if step_result.next_timer_us is None or step_result.encoded_state is None:
            self._state.put(key_text, None)
            return None
        timer_us = round_timer_us(step_result.next_timer_us, clock_us)
        is_registered = saved_entry is not None and clock_us < saved_entry.timer_us <= timer_us
        registered_us = saved_entry.timer_us if saved_entry is not None and is_registered else timer_us
        self._state.put(key_text, KeyStateEntry(registered_us, step_result.encoded_state.decode()))
        return None if is_registered else timer_us


def round_timer_us(next_timer_us: int, clock_us: int) -> int:
    """The timer of a key: the first second after it is due, or within the last hour before that."""
    if next_timer_us - clock_us > DISTANT_TIMER_STEP_US:
        return next_timer_us // DISTANT_TIMER_STEP_US * DISTANT_TIMER_STEP_US
    return -(-next_timer_us // TIMER_STEP_US) * TIMER_STEP_US


class OperatorEventReader:
    """Reads events from JSON texts, as operators take them."""

    def __init__(self, operation: StreamOperation) -> None:
        self._key_columns = operation.by
        self._id_columns = tuple(stream.id for stream in operation.inputs)
        self._time_columns = tuple(stream.time for stream in operation.inputs)
        self._double_columns = tuple(_list_double_columns(stream) for stream in operation.inputs)

    def read_event(self, text: str) -> InputEvent:
        """Parse an event."""
        source, arrival_us, partition, offset, values = orjson.loads(text)
        for name in self._double_columns[source]:
            if isinstance(values[name], str):  # JSON has no NaN or infinity, which Spark writes as text
                values[name] = float(values[name])
        time_us = values[self._time_columns[source]]
        return InputEvent(source, values[self._id_columns[source]], time_us, arrival_us, partition, offset, values)

    def to_key_text(self, event: InputEvent) -> str:
        """The key of an event, as text."""
        return orjson.dumps([event.values[name] for name in self._key_columns[event.input_index]]).decode()


def _list_double_columns(stream: Stream) -> tuple[str, ...]:
    return tuple(column.name for column in stream.schema if column.kind is Kind.DOUBLE)
