"""How late events come, which `late=` that asks for, and what each choice would lose.

    event time ──────── arrival                lateness = arrival − event time
               └ P50 ┘
               └───────── P99 ────────┘
               └──────────── 1.5 × P99, rounded up to a human duration ─┘ recommended

Read from the raw records in the lake, judged as the gate judges them: late and dropped events are in it, dead letters
are not. An event that was sent several times counts once, as it first arrived.
"""

from collections.abc import Sequence
from pathlib import Path

from pyspark.sql import Column, DataFrame, SparkSession, Window
from pyspark.sql import functions as F

from headrace.declare.aggregates import Aggregate
from headrace.declare.durations import duration_us
from headrace.declare.schema import Schema
from headrace.declare.stream import Stream
from headrace.declare.views import View
from headrace.errors import HeadraceError
from headrace.lake.landing import ARRIVAL, OFFSET, PARTITION, bronze
from headrace.lake.measured import MARGIN, SHARES, Delays, Lateness, Lost
from headrace.lake.tables import table_rows
from headrace.log.schemas.known import Known
from headrace.stream.expressions import seen, to_column, widest
from headrace.stream.gate import judged

HUMAN = (
    *("1s", "2s", "5s", "10s", "15s", "30s", "1m", "2m", "5m", "10m", "15m", "30m"),
    *("1h", "2h", "3h", "6h", "12h", "1d", "2d", "3d", "7d", "14d", "30d", "90d", "365d", "3650d"),
)
MEASURED = ("count", "sum")


class NothingArrived(HeadraceError):
    """No events in the lake to measure."""


def lateness_of(
    spark: SparkSession, lake_dir: Path, stream: Stream, views: Sequence[View], known: Known | None = None
) -> Lateness:
    """Measure every event of a stream that has landed; `known` are its registered schemas."""
    events = arrived(table_rows(spark, lake_dir, bronze(stream)), stream, known).cache()
    try:
        return _measured(events, stream, views)
    finally:
        events.unpersist()


def arrived(raw: DataFrame, stream: Stream, known: Known | None = None) -> DataFrame:
    """The events among raw rows of the lake, each id once, as it first arrived: event, lateness and arrival."""
    records = raw.withColumnsRenamed({ARRIVAL: "timestamp", PARTITION: "partition", OFFSET: "offset"})
    alive = judged(records, stream, known).where("reason is null")
    same = Window.partitionBy(F.col("event").getField(stream.id)).orderBy("timestamp", "partition", "offset")
    first = alive.withColumn("turn", F.row_number().over(same)).where("turn = 1")
    return first.select("event", "lateness", F.timestamp_micros("arrival").alias("arrival"))


def _measured(events: DataFrame, stream: Stream, views: Sequence[View]) -> Lateness:
    whole = events.agg(*_figures()).collect()[0].asDict()
    if not whole["events"]:
        raise NothingArrived(
            f"No event of {stream.name!r} has landed in the lake yet. Run `headrace up APP` with events coming in, "
            "or give the folder it writes to with --lake DIR."
        )
    delays = Delays(**whole)
    hours = events.groupBy(F.hour("arrival").alias("hour")).agg(*_figures()).orderBy("hour").collect()
    present_us, recommended_us = stream.late.until_us, recommended(delays.p99_us)
    return Lateness(
        stream.name,
        delays,
        {
            row["hour"]: Delays(**{name: value for name, value in row.asDict().items() if name != "hour"})
            for row in hours
        },
        present_us,
        recommended_us,
        _lost(events, stream, views, (0, present_us, recommended_us)),
    )


def _figures() -> list[Column]:
    return [
        F.count(F.lit(1)).alias("events"),
        *(
            F.expr(f"cast(percentile_disc({share}) within group (order by lateness) as bigint)").alias(f"{name}_us")
            for name, share in SHARES.items()
        ),
        F.max("lateness").alias("greatest_us"),
    ]


def recommended(p99_us: int) -> int:
    """The shortest human duration that is half as long again as P99.

    >>> recommended(40_000_000) // 1_000_000, recommended(40_000_001) // 1_000_000, recommended(-5) // 1_000_000
    (60, 120, 1)
    """
    choices = [duration_us(text, "late") for text in HUMAN]
    return next((choice for choice in choices if choice >= MARGIN * p99_us), choices[-1])


def _lost(events: DataFrame, stream: Stream, views: Sequence[View], choices: Sequence[int]) -> tuple[Lost, ...]:
    weights = {name: weight for view in views for name, weight in _weights(view, stream)}
    sums = [F.sum(weight).alias(f"all_{number}") for number, weight in enumerate(weights.values())]
    for at, late_us in enumerate(choices):
        too_late = F.col("lateness") > late_us
        sums.append(F.count(F.when(too_late, 1)).alias(f"events_{at}"))
        sums += [
            F.sum(F.when(too_late, weight)).alias(f"lost_{at}_{number}")
            for number, weight in enumerate(weights.values())
        ]
    found = events.agg(F.count(F.lit(1)).alias("events"), *sums).collect()[0].asDict()
    return tuple(
        Lost(
            late_us,
            found[f"events_{at}"] / found["events"],
            {name: _share(found[f"lost_{at}_{number}"], found[f"all_{number}"]) for number, name in enumerate(weights)},
        )
        for at, late_us in enumerate(choices)
    )


def _share(lost: float | None, whole: float | None) -> float | None:
    return float(lost or 0) / float(whole) if whole else None


def _weights(view: View, stream: Stream) -> list[tuple[str, Column]]:
    """What each event adds to a count or a sum: 1, or the size of its number; one entry for all windows alike."""
    names: dict[Aggregate, list[str]] = {}
    for feature in view.features:
        if feature.aggregate.function in MEASURED:
            names.setdefault(feature.aggregate, []).append(feature.name)
    event = seen(F.col("event"), stream, view)
    return [
        (f"{view.name}.{', '.join(named)}", _weight(aggregate, view.schema, event))
        for aggregate, named in names.items()
    ]


def _weight(aggregate: Aggregate, schema: Schema, event: Column) -> Column:
    size = F.lit(1.0)
    if aggregate.column is not None:
        number = F.abs(widest(event, aggregate.column, schema).cast("double"))
        size = F.when(number < float("inf"), number)  # NaN and infinity have no share
    counts = F.lit(True) if aggregate.where is None else to_column(aggregate.where, schema, event)
    return F.when(counts, size)
