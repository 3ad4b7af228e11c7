"""Training sets: for each row of a spine, the features of its entity as they were at its time.

    spine   card  at     label          events of the stream, each id once
             │     │                          │
             └──── hashed into buckets of entities ────┘
                          │ one vectorised call a bucket (`lookback`)
                          ▼
            card  at  label  payments_10m  spend_7d …

as_of="arrival"   what had arrived by then: what the server would have said
as_of="event"     what had happened by then, whenever it became known
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

from headrace.declare.operands import REQUEST
from headrace.declare.schema import Kind
from headrace.declare.stream import Stream
from headrace.declare.views import View, view_of
from headrace.errors import HeadraceError
from headrace.lake.arrow import ARROW_TYPES, output_type
from headrace.lake.landing import ARRIVAL, OFFSET, PARTITION
from headrace.lake.lookback import STATUS, Reads, features_at
from headrace.lake.past import require_of_the_past
from headrace.lake.spine_times import times_us
from headrace.lake.tables import log_events, silver_events
from headrace.stream.expressions import seen, to_column, widest

AsOf = Literal["arrival", "event"]
Source = str | Path | Mapping[str, DataFrame]

LAKE = ".headrace/lake"
LOG = "kafka://"
EVENTS_A_BUCKET = 100_000
BUCKETS_A_CORE = 2
BUCKET = "hr_bucket"
REPEATED = "hr_hash bigint, hr_events bigint"
ANSI = "spark.sql.ansi.enabled"


class UnfitSpine(HeadraceError):
    """A spine, or a question about it, from which no training set can be made."""


def training_set(
    spark: SparkSession,
    spine: DataFrame,
    views: Sequence[View | type],
    *,
    as_of: AsOf = "arrival",
    source: Source = LAKE,
    time: str | None = None,
) -> DataFrame:
    """The spine with one column more a feature; `source` is a lake's folder, kafka://HOST:PORT, or frames by stream.

    `time` names the spine's column of times; without it, that of the first view's stream.
    """
    frame = with_status(spark, spine, views, Question(as_of, source, time))
    return frame.drop(*(status_name(view_of(view)) for view in views))


@dataclass(frozen=True)
class Question:
    """What to take for known, where the events are, and the spine's column of times if it is not the stream's."""

    as_of: AsOf = "arrival"
    source: Source = LAKE
    time: str | None = None


def with_status(spark: SparkSession, spine: DataFrame, views: Sequence[View | type], question: Question) -> DataFrame:
    """A training set in which a column a view says whether there was anything to find."""
    declared = [view_of(view) for view in views]
    time = question.time or (declared[0].streams[0].time if declared else "")
    _require_fit(spine, declared, question.as_of, time)
    with plain_arithmetic(spark):
        streams = dict.fromkeys(stream for view in declared for stream in view.streams)
        once = {stream: each_once(events_of(spark, stream, question.source), stream) for stream in streams}
        frame, at_us = spine, times_us(spine, time)
        for view in declared:
            frame = _with_features(frame, [once[stream] for stream in view.streams], view, question.as_of, at_us)
    return frame


def status_name(view: View) -> str:
    """The column that says whether there was anything to find for a view."""
    return f"{STATUS}_{view.name}"


def _require_fit(spine: DataFrame, views: Sequence[View], as_of: str, time: str) -> None:
    if as_of not in get_args(AsOf):
        raise UnfitSpine(f'as_of={as_of!r}: write "arrival" (what the server would have said then) or "event".')
    if not views:
        raise UnfitSpine("No views. Name those whose features you want: [CardSpend].")
    for view in views:
        require_of_the_past(view)
    asked = [column.name.removeprefix(REQUEST) for view in views for column in view.requested]
    for column in dict.fromkeys([*(name for view in views for name in view.by), time, *asked]):
        if column not in spine.columns:
            raise UnfitSpine(
                f"The spine has no column {column!r}. It has {', '.join(spine.columns)}. Add or rename it."
            )
    for view in views:
        _require_fit_keys(spine, view)
    names = [*spine.columns, *(name for view in views for name in view.names)]
    for name in names:
        if names.count(name) > 1:
            raise UnfitSpine(f"Two columns would be named {name!r}. Rename the spine's, or ask for one view at a time.")


def _require_fit_keys(spine: DataFrame, view: View) -> None:
    """Refuse a key of fractions where texts are meant: 42.0 would never be found as 42."""
    types = dict(spine.dtypes)
    for column in view.entity:
        if column.kind is Kind.STRING and types[column.name] in {"float", "double"}:
            raise UnfitSpine(
                f"The spine's column {column.name!r} is {types[column.name]}, and {view.name} has texts for it: 42.0 "
                "would not be found as 42. Write texts or whole numbers; in pandas, .astype('Int64')."
            )


@contextmanager
def plain_arithmetic(spark: SparkSession) -> Iterator[None]:
    """Conditions as the stream computes them: overflow wraps, dividing by zero is null. A plan keeps how it began."""
    before = spark.conf.get(ANSI)
    spark.conf.set(ANSI, "false")
    try:
        yield
    finally:
        spark.conf.set(ANSI, before or "true")


def events_of(spark: SparkSession, stream: Stream, source: Source) -> DataFrame:
    """The clean events of a stream, from wherever they are kept."""
    if isinstance(source, Mapping):
        if stream.name not in source:
            raise UnfitSpine(
                f"source= has no frame of the stream {stream.name!r}, only of {', '.join(source) or 'none'}. Add it."
            )
        return source[stream.name]
    if str(source).startswith(LOG):
        return log_events(spark, str(source).removeprefix(LOG), stream)
    return silver_events(spark, Path(source), stream)


class Once(NamedTuple):
    """Events, each id once, and how many there were before."""

    events: DataFrame
    total: int


def each_once(events: DataFrame, stream: Stream) -> Once:
    """Of each id the first to arrive.

    Ids whose hash came twice are looked for first: they are few, and all the other events just pass.
    """
    hashed = F.xxhash64(F.col(f"`{stream.id}`")).alias("hr_hash")
    found = events.select(hashed).repartition("hr_hash").mapInArrow(_repeated, REPEATED).localCheckpoint()
    (total, repeated) = found.agg(F.sum("hr_events"), F.count("hr_hash")).collect()[0]
    if not repeated:
        return Once(events, total or 0)
    suspects = events.join(F.broadcast(found.select("hr_hash")), hashed == F.col("hr_hash"), "left_semi")
    return Once(_without_repeats(events, suspects, stream), total)


def _repeated(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """The hashes that came more than once; and, beside none, how many came."""
    hashes = np.sort(np.concatenate([np.empty(0, np.int64), *(batch.column(0).to_numpy() for batch in batches)]))
    repeated = np.unique(hashes[1:][hashes[1:] == hashes[:-1]])
    found = pa.array([None, *repeated.tolist()], pa.int64())
    yield pa.record_batch({"hr_hash": found, "hr_events": pa.array([len(hashes), *[0] * len(repeated)], pa.int64())})


def _without_repeats(events: DataFrame, suspects: DataFrame, stream: Stream) -> DataFrame:
    place = F.struct(ARRIVAL, PARTITION, OFFSET)
    firsts = suspects.groupBy(F.col(f"`{stream.id}`").alias("hr_id")).agg(F.min(place).alias("hr_first"))
    joined = events.join(F.broadcast(firsts), F.col(f"`{stream.id}`") == F.col("hr_id"), "left")
    return joined.where(F.col("hr_first").isNull() | (F.col("hr_first") == place)).drop("hr_id", "hr_first")


def _with_features(spine: DataFrame, once: Sequence[Once], view: View, as_of: AsOf, at_us: Column) -> DataFrame:
    read = read_events([one.events for one in once], view, as_of)
    total = sum(one.total for one in once)
    buckets = max(BUCKETS_A_CORE * spine.sparkSession.sparkContext.defaultParallelism, total // EVENTS_A_BUCKET)
    asked = _asked(spine, view, at_us).withColumn(BUCKET, bucket(view, buckets)).repartition(buckets, BUCKET)
    known = read.withColumn(BUCKET, bucket(view, buckets)).repartition(buckets, BUCKET)
    found = [StructField(name, from_arrow_type(kind)) for name, kind in _outputs(view)]
    schema = StructType([*spine.schema.fields, *found])
    looked_up = asked.groupBy(BUCKET).cogroup(known.groupBy(BUCKET))
    return looked_up.applyInArrow(_look_back(view, spine.columns), schema)


def _outputs(view: View) -> list[tuple[str, pa.DataType]]:
    kept = [(feature.name, output_type(feature, view)) for feature in view.features]
    return [*kept, *((one.name, ARROW_TYPES[one.kind]) for one in view.derived), (status_name(view), pa.int8())]


def _look_back(view: View, spine_columns: Sequence[str]) -> Callable[[pa.Table, pa.Table], pa.Table]:
    types = dict(_outputs(view))

    def look_back(spine: pa.Table, events: pa.Table) -> pa.Table:
        found = features_at(view, events, spine).rename_columns(list(types))
        columns = {name: in_utc(spine[name]) for name in spine_columns}
        return pa.table(columns | {name: found[name].cast(kind) for name, kind in types.items()})

    return look_back


def in_utc(column: pa.ChunkedArray | pa.Array) -> pa.ChunkedArray | pa.Array:
    """A column as Spark wants it back: it hands moments over in the session's time zone, and takes them in UTC."""
    is_moment = pa.types.is_timestamp(column.type) and column.type.tz is not None
    return column.cast(ARROW_TYPES[Kind.TIMESTAMP]) if is_moment else column


def read_events(events: Sequence[DataFrame], view: View, as_of: AsOf) -> DataFrame:
    """What the windows of a view read of the events of its streams, as `lookback` names it."""
    read = [_read_events(own, view, stream, as_of) for own, stream in zip(events, view.streams, strict=True)]
    return reduce(DataFrame.unionByName, read)


def _read_events(events: DataFrame, view: View, stream: Stream, as_of: AsOf) -> DataFrame:
    reads, schema = Reads(view), view.schema
    event = seen(F.struct(*(F.col(f"`{column.name}`") for column in stream.schema)), stream, view)
    whole = reduce(and_, (event.getField(name).isNotNull() for name in view.by))
    time_us = F.unix_micros(F.col(f"`{stream.time}`"))
    known_us = F.unix_micros(ARRIVAL) if as_of == "arrival" else time_us
    number = F.lit(view.streams_by_name.index(stream)).cast("tinyint").alias("hr_stream")
    return events.where(whole).select(
        *entity_columns(view, {name: event.getField(name) for name in view.by}),
        time_us.alias("hr_time"),
        known_us.alias("hr_known"),
        widest(event, stream.id, schema).alias("hr_id"),
        *([number] if len(view.streams) > 1 else []),
        *(_value(widest(event, name, schema), view, name).alias(f"v{i}") for i, name in enumerate(reads.values)),
        *(to_column(condition, schema, event).alias(f"w{i}") for i, condition in enumerate(reads.conditions)),
    )


def entity_columns(view: View, columns: Mapping[str, Column]) -> list[Column]:
    """The columns of an entity, each of a type both sides have."""
    return [
        _value(columns[column.name].cast(column.type), view, column.name).alias(f"e{number}")
        for number, column in enumerate(view.entity)
    ]


def _value(value: Column, view: View, name: str) -> Column:
    is_time = view.schema.column(name, view.name).kind is Kind.TIMESTAMP
    return F.unix_micros(value) if is_time else value


def _asked(spine: DataFrame, view: View, at_us: Column) -> DataFrame:
    fields = [(column, column.name.removeprefix(REQUEST)) for column in view.requested]
    return spine.select(
        "*",
        *entity_columns(view, {name: F.col(f"`{name}`") for name in view.by}),
        at_us.alias("hr_at"),
        *(F.col(f"`{name}`").cast(column.type).alias(f"r{i}") for i, (column, name) in enumerate(fields)),
    )


def bucket(view: View, buckets: int) -> Column:
    """The bucket an entity is in."""
    entity: list[Any] = [f"e{number}" for number in range(len(view.by))]
    return F.pmod(F.xxhash64(*entity), F.lit(buckets)).cast("int")
