"""How late events arrive, the `late=` that this recommends, and what each choice would lose.

    event time ──────── arrival                lateness = arrival − event time
               └ P50 ┘
               └───────── P99 ────────┘
               └──────────── 1.5 × P99, rounded up to a human duration ─┘ recommended

Read from the raw records in the lake, classified as the gate does: late and dropped events are included, dead letters
are not. An event that was sent several times counts once, at its first arrival.
"""

from collections.abc import Sequence
from pathlib import Path

from pyspark.sql import Column, DataFrame, SparkSession, Window
from pyspark.sql import functions as F

from headrace.aggregates.aggregate_function import aggregate_function
from headrace.declare.durations import duration_us
from headrace.declare.features.aggregates import Aggregate
from headrace.declare.features.view import View
from headrace.declare.streams.schema import Schema
from headrace.declare.streams.stream import Stream
from headrace.errors import HeadraceError
from headrace.kafka.schema_registry.known_schemas import KnownSchemas
from headrace.lake.event_reader import read_table_rows
from headrace.lake.ingestion.table_mapping import ARRIVAL, OFFSET, PARTITION, bronze_mapping
from headrace.lake.lateness.lateness_report import (
    QUANTILES,
    RECOMMENDED_MARGIN,
    LatenessDistribution,
    LatenessLoss,
    LatenessReport,
)
from headrace.spark.gate.column_expressions import to_column, to_view_event, widen_field
from headrace.spark.gate.gate import classify_records

HUMAN_DURATIONS = (
    *("1s", "2s", "5s", "10s", "15s", "30s", "1m", "2m", "5m", "10m", "15m", "30m"),
    *("1h", "2h", "3h", "6h", "12h", "1d", "2d", "3d", "7d", "14d", "30d", "90d", "365d", "3650d"),
)


class NoEventsIngestedError(HeadraceError):
    """No events in the lake to measure."""


def measure_lateness(
    spark: SparkSession,
    lake_dir: Path,
    stream: Stream,
    views: Sequence[View],
    known_schemas: KnownSchemas | None = None,
) -> LatenessReport:
    """Measure every event of a stream in the lake; `known_schemas` are its registered schemas."""
    events = first_arrivals(read_table_rows(spark, lake_dir, bronze_mapping(stream)), stream, known_schemas).cache()
    try:
        return _build_report(events, stream, views)
    finally:
        events.unpersist()


def first_arrivals(raw: DataFrame, stream: Stream, known_schemas: KnownSchemas | None = None) -> DataFrame:
    """The events among raw rows of the lake, each id once, at its first arrival: event, lateness and arrival."""
    records = raw.withColumnsRenamed({ARRIVAL: "timestamp", PARTITION: "partition", OFFSET: "offset"})
    not_dead = classify_records(records, stream, known_schemas).where("reason is null")
    same_id = Window.partitionBy(F.col("event").getField(stream.id)).orderBy("timestamp", "partition", "offset")
    firsts = not_dead.withColumn("turn", F.row_number().over(same_id)).where("turn = 1")
    return firsts.select("event", "lateness", F.timestamp_micros("arrival").alias("arrival"))


def _build_report(events: DataFrame, stream: Stream, views: Sequence[View]) -> LatenessReport:
    totals = events.agg(*_lateness_aggregates()).collect()[0].asDict()
    if not totals["events"]:
        raise NoEventsIngestedError(
            f"No event of {stream.name!r} is in the lake yet. Run `headrace up APP` with events coming in, "
            "or give the folder it writes to with --lake DIR."
        )
    distribution = LatenessDistribution(**totals)
    hourly_rows = events.groupBy(F.hour("arrival").alias("hour")).agg(*_lateness_aggregates()).orderBy("hour").collect()
    current_us, recommended_us = stream.late.until_us, recommend_late_us(distribution.p99_us)
    return LatenessReport(
        stream.name,
        distribution,
        {
            row["hour"]: LatenessDistribution(**{name: value for name, value in row.asDict().items() if name != "hour"})
            for row in hourly_rows
        },
        current_us,
        recommended_us,
        _measure_losses(events, stream, views, (0, current_us, recommended_us)),
    )


def _lateness_aggregates() -> list[Column]:
    return [
        F.count(F.lit(1)).alias("events"),
        *(
            F.expr(f"cast(percentile_disc({quantile}) within group (order by lateness) as bigint)").alias(f"{name}_us")
            for name, quantile in QUANTILES.items()
        ),
        F.max("lateness").alias("greatest_us"),
    ]


def recommend_late_us(p99_us: int) -> int:
    """The shortest round duration that is at least half as long again as P99.

    >>> [recommend_late_us(late_us) // 1_000_000 for late_us in (40_000_000, 40_000_001, -5)]
    [60, 120, 1]
    """
    choices = [duration_us(text, "late") for text in HUMAN_DURATIONS]
    return next((choice for choice in choices if choice >= RECOMMENDED_MARGIN * p99_us), choices[-1])


def _measure_losses(
    events: DataFrame, stream: Stream, views: Sequence[View], choices: Sequence[int]
) -> tuple[LatenessLoss, ...]:
    weights = {name: weight for view in views for name, weight in _weights(view, stream)}
    sums = [F.sum(weight).alias(f"all_{weight_index}") for weight_index, weight in enumerate(weights.values())]
    for choice_index, late_us in enumerate(choices):
        too_late = F.col("lateness") > late_us
        sums.append(F.count(F.when(too_late, 1)).alias(f"events_{choice_index}"))
        sums += [
            F.sum(F.when(too_late, weight)).alias(f"lost_{choice_index}_{number}")
            for number, weight in enumerate(weights.values())
        ]
    totals = events.agg(F.count(F.lit(1)).alias("events"), *sums).collect()[0].asDict()
    return tuple(
        LatenessLoss(
            late_us,
            totals[f"events_{at}"] / totals["events"],
            {
                name: _ratio(totals[f"lost_{at}_{number}"], totals[f"all_{number}"])
                for number, name in enumerate(weights)
            },
        )
        for at, late_us in enumerate(choices)
    )


def _ratio(part: float | None, total: float | None) -> float | None:
    return float(part or 0) / float(total) if total else None


def _weights(view: View, stream: Stream) -> list[tuple[str, Column]]:
    """What each event adds to a count or a sum: 1, or the absolute value of its number; one entry for all windows."""
    names_by_aggregate: dict[Aggregate, list[str]] = {}
    for feature in view.features:
        if aggregate_function(feature.aggregate.function).is_additive:
            names_by_aggregate.setdefault(feature.aggregate, []).append(feature.name)
    event = to_view_event(F.col("event"), stream, view)
    return [
        (f"{view.name}.{', '.join(feature_names)}", _weight(aggregate, view.schema, event))
        for aggregate, feature_names in names_by_aggregate.items()
    ]


def _weight(aggregate: Aggregate, schema: Schema, event: Column) -> Column:
    weight = F.lit(1.0)
    if aggregate.column is not None:
        magnitude = F.abs(widen_field(event, aggregate.column, schema).cast("double"))
        weight = F.when(magnitude < float("inf"), magnitude)  # NaN and infinity have no share
    is_counted = F.lit(True) if aggregate.where is None else to_column(aggregate.where, schema, event)
    return F.when(is_counted, weight)
