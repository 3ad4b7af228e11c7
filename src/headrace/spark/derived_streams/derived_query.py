"""Derived streams on Spark: clean events as DataFrames, the user's function, and its rows as raw records.

    payments.clean ──▶ typed columns, known_at ──watermark──(dedup by id)──▶ function ──▶ JSON, by key ──▶ abroad

Parents are read with ANSI mode off, as everywhere here; the function runs with ANSI mode on, as in any Spark 4: an
invalid computation raises, and a row that raises becomes a dead letter.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from pyspark.errors import PySparkException
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F

from headrace.declare.app import App
from headrace.declare.operations.derived_stream import (
    KNOWN_AT,
    Derivation,
    DerivedStream,
    FunctionDerivation,
    StreamOperation,
)
from headrace.declare.operations.enrichment import Enrichment
from headrace.declare.streams.schema import Kind
from headrace.declare.streams.stream import Stream
from headrace.errors import DeclarationError
from headrace.kafka.headers import ARRIVAL_HEADER, SPARK_HEADERS_TYPE
from headrace.kafka.record import Partition
from headrace.spark.derived_streams.enrichment import to_function_derivation
from headrace.spark.derived_streams.plan_analysis import (
    REAL_TIME_REASON,
    STREAM_OPTION,
    PlanAnalysis,
    analyze_plan,
    require_streamable,
)
from headrace.spark.execution.lanes import Lane
from headrace.spark.execution.watermark_delay import watermark_delay_us
from headrace.spark.gate.header_columns import gate_header
from headrace.spark.gate.json_parser import TIMESTAMP_FORMAT, parse_json, to_event

ANSI_MODE = "spark.sql.ansi.enabled"
RECORD_COLUMNS = (
    "cast(null as binary) key",
    "cast(null as binary) value",
    "0 partition",
    "0L offset",
    f"cast(null as {SPARK_HEADERS_TYPE}) headers",
)

SkippedOffsets = dict[Partition, frozenset[int]]


@dataclass(frozen=True)
class StreamFunction:
    """A function that derives a stream, and the topic of its rows."""

    derivation: FunctionDerivation
    stream: DerivedStream
    fed_operation: str | None = None  # the operation, if any, whose clock depends on its commits

    @property
    def parents(self) -> tuple[Stream, ...]:
        return self.derivation.inputs

    def to_declaration_error(self, message: str) -> DeclarationError:
        return DeclarationError(f"{self.derivation.location}: {self.stream.name}: {message}")


def stream_functions(app: App) -> dict[Derivation, StreamFunction]:
    """The functions that derive an app's streams."""
    derived_streams = [
        (stream.made_by, _to_function(stream.made_by), stream)
        for stream in app.streams
        if isinstance(stream, DerivedStream)
    ]
    return {
        derivation: StreamFunction(function, one, _find_fed_operation(app, one))
        for derivation, function, one in derived_streams
        if function is not None
    }


def _to_function(derivation: Derivation) -> FunctionDerivation | None:
    if isinstance(derivation, Enrichment):
        return to_function_derivation(derivation)
    return derivation if isinstance(derivation, FunctionDerivation) else None


def _find_fed_operation(app: App, stream: Stream) -> str | None:
    """The first operation that reads a stream, directly or through functions."""
    for reader in (candidate for candidate in app.derivations if stream in candidate.inputs):
        downstream_operations = (_find_fed_operation(app, one) for one in app.derived_streams_of(reader))
        operation_name = (
            reader.name if isinstance(reader, StreamOperation) else next(filter(None, downstream_operations), None)
        )
        if operation_name is not None:
            return operation_name
    return None


@dataclass(frozen=True)
class LaneDecision:
    """The lane of a function, the reason, and whether it keeps state."""

    lane: Lane
    reason: str
    keeps_state: bool


def choose_lane(spark: SparkSession, function: StreamFunction) -> LaneDecision:
    """Call a function on empty streams, analyze the plan of its result, and choose its lane."""
    empty_inputs = [_empty_stream(spark, parent) for parent in function.parents]
    analysis = analyze_plan(call_streamable_function(function, empty_inputs))
    _require_supported_plan(function, analysis)
    requested_lane = function.derivation.lane
    if requested_lane == "real-time" and analysis.micro_batch_reason:
        raise function.to_declaration_error(
            f'lane="real-time", and the function has {analysis.micro_batch_reason}, which real-time mode does not run. '
            'Remove that, or lane="real-time".'
        )
    if analysis.micro_batch_reason:
        return LaneDecision(Lane.MICRO_BATCH, analysis.micro_batch_reason, analysis.keeps_state)
    if requested_lane == "micro-batch":
        return LaneDecision(Lane.MICRO_BATCH, 'asked for: lane="micro-batch"', keeps_state=False)
    if requested_lane == "auto" and function.fed_operation is not None:
        return LaneDecision(
            Lane.MICRO_BATCH, f"the clock of {function.fed_operation} follows its commits", keeps_state=False
        )
    return LaneDecision(Lane.REAL_TIME, REAL_TIME_REASON, keeps_state=False)


def call_streamable_function(function: StreamFunction, clean_records: Sequence[DataFrame]) -> DataFrame:
    """The result of a function on clean streams, after checking its columns and that Spark can run it on a stream."""
    result = call_function(function, input_frames(function, clean_records, Lane.REAL_TIME))
    try:
        require_streamable(result)
    except PySparkException as error:
        raise function.to_declaration_error(f"Spark cannot run it on a stream: {_first_line(error)}") from error
    return result


def derive_records(
    function: StreamFunction,
    decision: LaneDecision,
    clean_records: Sequence[DataFrame],
    lane: Lane,
    skipped_offsets: SkippedOffsets,
) -> DataFrame:
    """Kafka records of the parents' clean topics → Kafka records of the derived stream's raw topic.

    A stateful function gets each id once; records at skipped offsets are left out.
    """
    inputs = [
        _skip_offsets(frame, parent, skipped_offsets)
        for frame, parent in zip(clean_records, function.parents, strict=True)
    ]
    return to_raw_records(
        call_function(function, input_frames(function, inputs, lane, deduplicate=decision.keeps_state)), function.stream
    )


def input_frames(
    function: StreamFunction, clean_records: Sequence[DataFrame], lane: Lane, *, deduplicate: bool = False
) -> list[DataFrame]:
    """The arguments of a function: the events of each parent, with a watermark and, if requested, deduplicated."""
    for frame in clean_records:
        frame.sparkSession.conf.set(ANSI_MODE, "false")
    return [
        _input_frame(frame, parent, lane, deduplicate)
        for frame, parent in zip(clean_records, function.parents, strict=True)
    ]


def _input_frame(clean_records: DataFrame, parent: Stream, lane: Lane, deduplicate: bool) -> DataFrame:
    delay_us = watermark_delay_us(parent, lane is Lane.DRAINING)
    watermarked = typed_events(clean_records, parent).withWatermark(parent.time, f"{delay_us // 1000} milliseconds")
    return watermarked.dropDuplicatesWithinWatermark([parent.id]) if deduplicate else watermarked


def typed_events(clean_records: DataFrame, stream: Stream) -> DataFrame:
    """Kafka records of a clean topic → typed columns, and `known_at`: the arrival time."""
    arrival_us = gate_header(ARRIVAL_HEADER)
    parsed_events = clean_records.select(
        to_event(parse_json(F.col("value"), stream), stream).alias("event"),
        F.timestamp_micros(arrival_us).alias(KNOWN_AT),
    )
    columns = [F.col("event").getField(name).alias(name) for name in stream.schema.names if name != KNOWN_AT]
    return parsed_events.select(*columns, KNOWN_AT)


def call_function(function: StreamFunction, inputs: Sequence[DataFrame]) -> DataFrame:
    """The result of a function, after checking that it is a DataFrame with exactly the declared columns."""
    inputs[0].sparkSession.conf.set(ANSI_MODE, "true")
    try:
        result = function.derivation.function(*inputs)
    except PySparkException as error:
        raise function.to_declaration_error(f"the function fails: {_first_line(error)}") from error
    except Exception as error:
        raise function.to_declaration_error(f"the function fails: {type(error).__name__}: {error}") from error
    if not isinstance(result, DataFrame):
        raise function.to_declaration_error(f"the function gives {type(result).__name__}, not a DataFrame. Return one.")
    _require_columns(function, result)
    return result


def _require_columns(function: StreamFunction, result: DataFrame) -> None:
    declared = {column.name: column.type for column in function.stream.schema}
    result_types = dict(result.dtypes)
    for name, type_ in declared.items():
        if name not in result_types:
            result_names = ", ".join(result_types)
            raise function.to_declaration_error(
                f"the result has no column {name!r}, only {result_names}. {_missing_column_advice(name, type_)}"
            )
        if result_types[name] != type_:
            raise function.to_declaration_error(
                f"column {name!r} is declared as {type_} and the result's is {result_types[name]}. "
                f'Cast it: F.col("{name}").cast("{type_}"), or change schema=.'
            )
    undeclared = [name for name in result.columns if name not in declared or result.columns.count(name) > 1]
    if undeclared:
        raise function.to_declaration_error(
            f"the result has a column {undeclared[0]!r} that is not declared, or twice. "
            f"Add it to schema=, or drop it: declared are {', '.join(declared)}."
        )


def _missing_column_advice(name: str, type_: str) -> str:
    if name == KNOWN_AT:
        return 'Keep it, or in a groupBy compute it: F.max("known_at").alias("known_at").'
    return f"Select it as {type_}, or change schema=."


def _require_supported_plan(function: StreamFunction, analysis: PlanAnalysis) -> None:
    if analysis.per_batch_operations:
        raise function.to_declaration_error(
            f"{analysis.per_batch_operations[0]} runs on what happens to be in one batch. "
            "Use an aggregate, transformWithState, or one of Headrace's operators."
        )
    unread_inputs = [parent.name for parent in function.parents if parent.name not in analysis.sources]
    if unread_inputs:
        raise function.to_declaration_error(
            f"the function does not read {unread_inputs[0]}. Remove it from @hr.derive(…), or use it."
        )


def to_raw_records(result: DataFrame, stream: DerivedStream) -> DataFrame:
    """Rows of a derived stream → Kafka records of its raw topic, in the partition of their key."""
    event = F.struct(*(F.col(f"`{name}`") for name in stream.schema.names))
    return result.select(
        F.lit(stream.name).alias("topic"),
        _record_key(stream).alias("key"),
        F.to_json(event, {"timestampFormat": TIMESTAMP_FORMAT}).alias("value"),
    )


def _record_key(stream: DerivedStream) -> Column:
    key = F.col(f"`{stream.key}`")
    is_time = stream.schema.column(stream.key, stream.name).kind is Kind.TIMESTAMP
    return F.date_format(key, TIMESTAMP_FORMAT) if is_time else key.cast("string")


def _skip_offsets(clean_records: DataFrame, parent: Stream, skipped_offsets: SkippedOffsets) -> DataFrame:
    """The records of a topic without those at skipped offsets."""
    for partition, offsets in sorted(skipped_offsets.items()):
        if partition.topic == parent.clean and offsets:
            clean_records = clean_records.where(
                ~((F.col("partition") == partition.number) & F.col("offset").isin(sorted(offsets)))
            )
    return clean_records


def _empty_stream(spark: SparkSession, parent: Stream) -> DataFrame:
    """An empty stream with the log's schema: its plan needs no broker."""
    return spark.readStream.format("rate").option(STREAM_OPTION, parent.name).load().selectExpr(*RECORD_COLUMNS)


def _first_line(error: PySparkException) -> str:
    return str(error).strip().partition("\n")[0]
