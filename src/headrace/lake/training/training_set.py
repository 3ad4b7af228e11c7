"""Training sets: an as-of join of each row of a spine with the features of its entity at its time.

    spine   card  at     label          events of the stream, each id once
             │     │                          │
             └──── hashed into buckets of entities ────┘
                          │ one vectorised call a bucket (`past_features`)
                          ▼
            card  at  label  payments_10m  spend_7d …

as_of="arrival"   what had arrived by then: what the server would have returned
as_of="event"     what had happened by then, whenever it arrived
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import reduce
from operator import and_
from pathlib import Path
from typing import Any, Literal, NamedTuple, get_args

import numpy as np
import pyarrow as pa
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.pandas.types import from_arrow_type
from pyspark.sql.types import StructField, StructType

from headrace.declare.features.operands import REQUEST_PREFIX
from headrace.declare.features.view import View, require_view
from headrace.declare.streams.schema import Kind
from headrace.declare.streams.stream import Stream
from headrace.errors import HeadraceError
from headrace.lake.event_reader import read_log_events, read_silver_events
from headrace.lake.historical_features import STATUS_COLUMN, ViewInputs, compute_past_features
from headrace.lake.ingestion.table_mapping import ARRIVAL, OFFSET, PARTITION
from headrace.lake.point_in_time_support import require_point_in_time_support
from headrace.lake.training.arrow_features import ARROW_TYPES, output_type
from headrace.lake.training.spine_times import time_column_us
from headrace.spark.gate.column_expressions import to_column, to_view_event, widen_field

AsOf = Literal["arrival", "event"]
Source = str | Path | Mapping[str, DataFrame]

DEFAULT_LAKE = ".headrace/lake"
LOG_PREFIX = "kafka://"
EVENTS_PER_BUCKET = 100_000
BUCKETS_PER_CORE = 2
BUCKET_COLUMN = "hr_bucket"
REPEATED_SCHEMA = "hr_hash bigint, hr_events bigint"
ANSI_SETTING = "spark.sql.ansi.enabled"


class InvalidSpineError(HeadraceError):
    """A spine, or a request, from which no training set can be made."""


def training_set(
    spark: SparkSession,
    spine: DataFrame,
    views: Sequence[View | type],
    *,
    as_of: AsOf = "arrival",
    source: Source = DEFAULT_LAKE,
    time: str | None = None,
) -> DataFrame:
    """The spine with one more column a feature; `source` is a lake's folder, kafka://HOST:PORT, or frames by stream.

    `time` names the spine's time column; the default is that of the first view's stream.
    """
    frame = training_set_with_status(spark, spine, views, TrainingSetRequest(as_of, source, time))
    return frame.drop(*(status_column(require_view(view)) for view in views))


@dataclass(frozen=True)
class TrainingSetRequest:
    """What counts as known, where the events are, and the spine's time column if it is not the stream's."""

    as_of: AsOf = "arrival"
    source: Source = DEFAULT_LAKE
    time: str | None = None


def training_set_with_status(
    spark: SparkSession, spine: DataFrame, views: Sequence[View | type], request: TrainingSetRequest
) -> DataFrame:
    """A training set with a column for each view that says whether there were events."""
    declared_views = [require_view(view) for view in views]
    time = request.time or (declared_views[0].streams[0].time if declared_views else "")
    _require_valid_spine(spine, declared_views, request.as_of, time)
    with disable_ansi_mode(spark):
        streams = dict.fromkeys(stream for view in declared_views for stream in view.streams)
        deduplicated = {
            stream: deduplicate_events(read_source_events(spark, stream, request.source), stream) for stream in streams
        }
        frame, at_us = spine, time_column_us(spine, time)
        for view in declared_views:
            frame = _join_features(frame, [deduplicated[stream] for stream in view.streams], view, request.as_of, at_us)
    return frame


def status_column(view: View) -> str:
    """The status column of a view."""
    return f"{STATUS_COLUMN}_{view.name}"


def _require_valid_spine(spine: DataFrame, views: Sequence[View], as_of: str, time: str) -> None:
    if as_of not in get_args(AsOf):
        raise InvalidSpineError(
            f'as_of={as_of!r}: write "arrival" (what the server would have returned then) or "event".'
        )
    if not views:
        raise InvalidSpineError("No views. Name those whose features you want: [CardSpend].")
    for view in views:
        require_point_in_time_support(view)
    request_fields = [column.name.removeprefix(REQUEST_PREFIX) for view in views for column in view.request_columns]
    for column in dict.fromkeys([*(name for view in views for name in view.by), time, *request_fields]):
        if column not in spine.columns:
            raise InvalidSpineError(
                f"The spine has no column {column!r}. It has {', '.join(spine.columns)}. Add or rename it."
            )
    for view in views:
        _require_matching_keys(spine, view)
    names = [*spine.columns, *(name for view in views for name in view.names)]
    for name in names:
        if names.count(name) > 1:
            raise InvalidSpineError(
                f"Two columns would be named {name!r}. Rename the spine's, or ask for one view at a time."
            )


def _require_matching_keys(spine: DataFrame, view: View) -> None:
    """Reject a key of fractions for a text column: 42.0 would never be found as 42."""
    types = dict(spine.dtypes)
    for column in view.entity:
        if column.kind is Kind.STRING and types[column.name] in {"float", "double"}:
            raise InvalidSpineError(
                f"The spine's column {column.name!r} is {types[column.name]}, and {view.name} has texts for it: 42.0 "
                "would not be found as 42. Write texts or whole numbers; in pandas, .astype('Int64')."
            )


@contextmanager
def disable_ansi_mode(spark: SparkSession) -> Iterator[None]:
    """Evaluate conditions as the stream does: overflow wraps, dividing by zero is null. A plan keeps its setting."""
    previous = spark.conf.get(ANSI_SETTING)
    spark.conf.set(ANSI_SETTING, "false")
    try:
        yield
    finally:
        spark.conf.set(ANSI_SETTING, previous or "true")


def read_source_events(spark: SparkSession, stream: Stream, source: Source) -> DataFrame:
    """The clean events of a stream, from the lake, the log or a frame."""
    if isinstance(source, Mapping):
        if stream.name not in source:
            raise InvalidSpineError(
                f"source= has no frame of the stream {stream.name!r}, only of {', '.join(source) or 'none'}. Add it."
            )
        return source[stream.name]
    if str(source).startswith(LOG_PREFIX):
        return read_log_events(spark, str(source).removeprefix(LOG_PREFIX), stream)
    return read_silver_events(spark, Path(source), stream)


class DeduplicatedEvents(NamedTuple):
    """Events, each id once, and how many there were before."""

    events: DataFrame
    total: int


def deduplicate_events(events: DataFrame, stream: Stream) -> DeduplicatedEvents:
    """Keep the first arrival of each id.

    First finds ids whose hash is repeated: they are few, and all other events pass unchanged.
    """
    id_hash = F.xxhash64(F.col(f"`{stream.id}`")).alias("hr_hash")
    repeated_hashes = (
        events.select(id_hash)
        .repartition("hr_hash")
        .mapInArrow(_find_repeated_hashes, REPEATED_SCHEMA)
        .localCheckpoint()
    )
    (total, repeated_count) = repeated_hashes.agg(F.sum("hr_events"), F.count("hr_hash")).collect()[0]
    if not repeated_count:
        return DeduplicatedEvents(events, total or 0)
    suspects = events.join(F.broadcast(repeated_hashes.select("hr_hash")), id_hash == F.col("hr_hash"), "left_semi")
    return DeduplicatedEvents(_drop_repeats(events, suspects, stream), total)


def _find_repeated_hashes(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """The repeated hashes; and, in a row with null, the number of all events."""
    hashes = np.sort(np.concatenate([np.empty(0, np.int64), *(batch.column(0).to_numpy() for batch in batches)]))
    repeated = np.unique(hashes[1:][hashes[1:] == hashes[:-1]])
    hash_column = pa.array([None, *repeated.tolist()], pa.int64())
    yield pa.record_batch(
        {"hr_hash": hash_column, "hr_events": pa.array([len(hashes), *[0] * len(repeated)], pa.int64())}
    )


def _drop_repeats(events: DataFrame, suspects: DataFrame, stream: Stream) -> DataFrame:
    log_position = F.struct(ARRIVAL, PARTITION, OFFSET)
    firsts = suspects.groupBy(F.col(f"`{stream.id}`").alias("hr_id")).agg(F.min(log_position).alias("hr_first"))
    joined = events.join(F.broadcast(firsts), F.col(f"`{stream.id}`") == F.col("hr_id"), "left")
    return joined.where(F.col("hr_first").isNull() | (F.col("hr_first") == log_position)).drop("hr_id", "hr_first")


def _join_features(
    spine: DataFrame, deduplicated: Sequence[DeduplicatedEvents], view: View, as_of: AsOf, at_us: Column
) -> DataFrame:
    view_events = select_view_events([stream_events.events for stream_events in deduplicated], view, as_of)
    total = sum(one.total for one in deduplicated)
    bucket_count = max(
        BUCKETS_PER_CORE * spine.sparkSession.sparkContext.defaultParallelism, total // EVENTS_PER_BUCKET
    )
    bucketed_spine = (
        _add_lookup_columns(spine, view, at_us)
        .withColumn(BUCKET_COLUMN, bucket_column(view, bucket_count))
        .repartition(bucket_count, BUCKET_COLUMN)
    )
    bucketed_events = view_events.withColumn(BUCKET_COLUMN, bucket_column(view, bucket_count)).repartition(
        bucket_count, BUCKET_COLUMN
    )
    feature_fields = [StructField(name, from_arrow_type(arrow_type)) for name, arrow_type in _output_columns(view)]
    schema = StructType([*spine.schema.fields, *feature_fields])
    grouped = bucketed_spine.groupBy(BUCKET_COLUMN).cogroup(bucketed_events.groupBy(BUCKET_COLUMN))
    return grouped.applyInArrow(_make_lookup(view, spine.columns), schema)


def _output_columns(view: View) -> list[tuple[str, pa.DataType]]:
    stored = [(feature.name, output_type(feature, view)) for feature in view.features]
    return [
        *stored,
        *((derived.name, ARROW_TYPES[derived.kind]) for derived in view.on_demand_features),
        (status_column(view), pa.int8()),
    ]


def _make_lookup(view: View, spine_columns: Sequence[str]) -> Callable[[pa.Table, pa.Table], pa.Table]:
    types = dict(_output_columns(view))

    def look_up(spine: pa.Table, events: pa.Table) -> pa.Table:
        features = compute_past_features(view, events, spine).rename_columns(list(types))
        columns = {name: to_utc(spine[name]) for name in spine_columns}
        return pa.table(columns | {name: features[name].cast(arrow_type) for name, arrow_type in types.items()})

    return look_up


def to_utc(column: pa.ChunkedArray | pa.Array) -> pa.ChunkedArray | pa.Array:
    """A column as Spark expects it: Spark passes times in the session's time zone, and takes them in UTC."""
    is_timestamp = pa.types.is_timestamp(column.type) and column.type.tz is not None
    return column.cast(ARROW_TYPES[Kind.TIMESTAMP]) if is_timestamp else column


def select_view_events(events: Sequence[DataFrame], view: View, as_of: AsOf) -> DataFrame:
    """The columns of events that a view's windows read, under the names of `ViewInputs`."""
    selected = [
        _select_stream_events(stream_events, view, stream, as_of)
        for stream_events, stream in zip(events, view.streams, strict=True)
    ]
    return reduce(DataFrame.unionByName, selected)


def _select_stream_events(events: DataFrame, view: View, stream: Stream, as_of: AsOf) -> DataFrame:
    inputs, schema = ViewInputs(view), view.schema
    event = to_view_event(F.struct(*(F.col(f"`{column.name}`") for column in stream.schema)), stream, view)
    has_entity = reduce(and_, (event.getField(name).isNotNull() for name in view.by))
    time_us = F.unix_micros(F.col(f"`{stream.time}`"))
    known_us = F.unix_micros(ARRIVAL) if as_of == "arrival" else time_us
    stream_number = F.lit(view.sorted_streams.index(stream)).cast("tinyint").alias("hr_stream")
    return events.where(has_entity).select(
        *entity_columns(view, {name: event.getField(name) for name in view.by}),
        time_us.alias("hr_time"),
        known_us.alias("hr_known"),
        widen_field(event, stream.id, schema).alias("hr_id"),
        *([stream_number] if len(view.streams) > 1 else []),
        *(
            _timestamp_to_micros(widen_field(event, name, schema), view, name).alias(f"v{i}")
            for i, name in enumerate(inputs.value_columns)
        ),
        *(to_column(condition, schema, event).alias(f"w{i}") for i, condition in enumerate(inputs.conditions)),
    )


def entity_columns(view: View, columns: Mapping[str, Column]) -> list[Column]:
    """The columns of an entity, each in a type that both sides have."""
    return [
        _timestamp_to_micros(columns[column.name].cast(column.type), view, column.name).alias(f"e{number}")
        for number, column in enumerate(view.entity)
    ]


def _timestamp_to_micros(value: Column, view: View, name: str) -> Column:
    is_time = view.schema.column(name, view.name).kind is Kind.TIMESTAMP
    return F.unix_micros(value) if is_time else value


def _add_lookup_columns(spine: DataFrame, view: View, at_us: Column) -> DataFrame:
    fields = [(column, column.name.removeprefix(REQUEST_PREFIX)) for column in view.request_columns]
    return spine.select(
        "*",
        *entity_columns(view, {name: F.col(f"`{name}`") for name in view.by}),
        at_us.alias("hr_at"),
        *(F.col(f"`{name}`").cast(column.type).alias(f"r{i}") for i, (column, name) in enumerate(fields)),
    )


def bucket_column(view: View, bucket_count: int) -> Column:
    """The bucket of an entity."""
    entity: list[Any] = [f"e{number}" for number in range(len(view.by))]
    return F.pmod(F.xxhash64(*entity), F.lit(bucket_count)).cast("int")
