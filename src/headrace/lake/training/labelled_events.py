"""Labelled events: each event of a model's stream with its label, as it was known at a time.

event ──── its labels count ────┤ within ── late ones may still arrive ──┤ closed: `default`, or never known

`declare` defines which label counts, for these as for the outcomes of predictions.
"""

import math
import time
from dataclasses import dataclass
from functools import reduce
from operator import and_

import pyarrow as pa
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F

from headrace.declare.models.label_policy import label_policy_of
from headrace.declare.models.labels import Labels
from headrace.declare.models.model import Model
from headrace.declare.streams.schema import Kind
from headrace.lake.ingestion.table_mapping import ARRIVAL, OFFSET, PARTITION
from headrace.lake.training.training_set import Source, deduplicate_events, read_source_events, training_set

_ID, _TIME, _ARRIVED, _LABEL = "hr_id", "hr_time", "hr_arrived", "hr_label"


@dataclass(frozen=True)
class ArrivalWindow:
    """A limit by arrival: everything that had arrived by a time, of events that arrived within a period before it."""

    until_us: int
    lookback_us: int | None = None

    def includes(self, arrival: Column) -> Column:
        """Whether an arrival is included."""
        return F.unix_micros(arrival) <= self.until_us

    def selects_event(self, arrival: Column) -> Column:
        """Whether an event is selected by its arrival."""
        is_recent = (
            F.lit(True) if self.lookback_us is None else F.unix_micros(arrival) > self.until_us - self.lookback_us
        )
        return self.includes(arrival) & is_recent


def current_time_us(spark: SparkSession, model: Model, labels: Labels, source: Source) -> int:
    """The current time or, where labels have recorded arrivals, the newest arrival of an event or label."""
    if not labels.stream.is_recorded:
        return time.time_ns() // 1000
    events = (read_source_events(spark, stream, source) for stream in dict.fromkeys((model.stream, labels.stream)))
    newest_arrivals = (stream_events.agg(F.max(F.unix_micros(ARRIVAL))).collect()[0][0] for stream_events in events)
    return max(arrival_us or 0 for arrival_us in newest_arrivals)


def labelled_training_set(
    spark: SparkSession, model: Model, labels: Labels, source: Source, window: ArrivalWindow
) -> pa.Table:
    """The training set of a model: its labelled events with their features as of each arrival."""
    spine = labelled_events(spark, model, labels, source, window).where(F.col(f"`{labels.value}`").isNotNull())
    return training_set(spark, spine, model.views, source=source, time=ARRIVAL).toArrow()


def labelled_events(
    spark: SparkSession, model: Model, labels: Labels, source: Source, window: ArrivalWindow
) -> DataFrame:
    """The events of a model's stream, each id once, with arrival and label, which is null where it is unknown."""
    stream = model.stream
    events = deduplicate_events(read_source_events(spark, stream, source), stream).events.where(
        window.selects_event(F.col(ARRIVAL))
    )
    label_events = read_source_events(spark, labels.stream, source).where(window.includes(F.col(ARRIVAL)))
    chosen_labels = _choose_labels(events, label_events, model, labels)
    event_columns = [f"`{name}`" for name in stream.schema.names if name != labels.value]
    joined = events.join(chosen_labels, F.col(f"`{stream.id}`") == F.col(_ID), "left")
    return joined.select(*event_columns, ARRIVAL, _label_or_default(stream.time, labels, window).alias(labels.value))


def _choose_labels(events: DataFrame, label_events: DataFrame, model: Model, labels: Labels) -> DataFrame:
    """The label that counts, for each event that has one in time."""
    stream, terms = model.stream, label_policy_of(labels)
    event_times = events.select(
        F.col(f"`{stream.id}`").alias(_ID),
        F.unix_micros(F.col(f"`{stream.time}`")).alias(_TIME),
        F.unix_micros(ARRIVAL).alias(_ARRIVED),
    )
    time_us, arrived_us = F.col(_TIME), F.col(_ARRIVED)
    label_time, value = F.col(f"`{labels.stream.time}`"), F.col(f"`{labels.value}`")
    counts_for_event = terms.is_in_time(F.unix_micros(label_time), time_us) & terms.is_joinable(
        F.unix_micros(ARRIVAL), time_us, arrived_us
    )
    candidates = label_events.join(
        event_times,
        reduce(and_, [label_events[f"`{stream.id}`"] == F.col(_ID), counts_for_event, _has_value(value, labels)]),
    )
    log_position = F.struct(label_time, ARRIVAL, PARTITION, OFFSET)
    aggregation = {"last": F.max_by(value, log_position), "first": F.min_by(value, log_position), "any": F.max(value)}[
        labels.keep
    ]
    return candidates.groupBy(_ID).agg(aggregation.alias(_LABEL))


def _has_value(value: Column, labels: Labels) -> Column:
    """Whether a value is a label."""
    is_double = labels.stream.schema.column(labels.value, labels.stream.name).kind is Kind.DOUBLE
    return (
        F.abs(value) < math.inf if is_double else value.isNotNull()
    )  # excludes NaN too: Spark orders it above infinity


def _label_or_default(time_column: str, labels: Labels, window: ArrivalWindow) -> Column:
    """The label; the default where none can arrive any more."""
    if labels.default is None:
        return F.col(_LABEL)
    after_us = window.until_us + 1  # everything that arrived before it is known
    is_closed = label_policy_of(labels).is_closed(
        F.unix_micros(F.col(f"`{time_column}`")), F.unix_micros(ARRIVAL), after_us
    )
    label_type = labels.stream.schema.column(labels.value, labels.stream.name).type
    return F.coalesce(F.col(_LABEL), F.when(is_closed, F.lit(labels.default).cast(label_type)))
