"""Labelled events: each event of a model's stream with what it turned out to be, as it was known at a moment.

event ──── its labels count ────┤ within ── late ones may still arrive ──┤ closed: `default`, or never known

Which label counts is said in `declare.terms`, for these as for the outcomes of predictions.
"""

import math
import time
from dataclasses import dataclass
from functools import reduce
from operator import and_

import pyarrow as pa
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F

from headrace.declare.labels import Labels
from headrace.declare.model import Model
from headrace.declare.schema import Kind
from headrace.declare.terms import terms_of
from headrace.lake.landing import ARRIVAL, OFFSET, PARTITION
from headrace.lake.training import Source, each_once, events_of, training_set

_ID, _TIME, _ARRIVED, _FOUND = "hr_id", "hr_time", "hr_arrived", "hr_label"


@dataclass(frozen=True)
class Known:
    """What is asked for: everything that had arrived by a moment, of events that arrived so long before it at most."""

    until_us: int
    over_us: int | None = None

    def has(self, arrival: Column) -> Column:
        """Whether an arrival is among it."""
        return F.unix_micros(arrival) <= self.until_us

    def asks_for(self, arrival: Column) -> Column:
        """Whether an event is asked for by its arrival."""
        recent = F.lit(True) if self.over_us is None else F.unix_micros(arrival) > self.until_us - self.over_us
        return self.has(arrival) & recent


def now_us(spark: SparkSession, model: Model, labels: Labels, source: Source) -> int:
    """Now by the clock or, where labels tell their own arrivals, when the newest event or label arrived."""
    if not labels.stream.is_recorded:
        return time.time_ns() // 1000
    events = (events_of(spark, stream, source) for stream in dict.fromkeys((model.stream, labels.stream)))
    newest = (found.agg(F.max(F.unix_micros(ARRIVAL))).collect()[0][0] for found in events)
    return max(arrival_us or 0 for arrival_us in newest)


def labelled_set(spark: SparkSession, model: Model, labels: Labels, source: Source, known: Known) -> pa.Table:
    """The training set of a model: its labelled events with their features as they were when each arrived."""
    spine = labelled_events(spark, model, labels, source, known).where(F.col(f"`{labels.value}`").isNotNull())
    return training_set(spark, spine, model.views, source=source, time=ARRIVAL).toArrow()


def labelled_events(spark: SparkSession, model: Model, labels: Labels, source: Source, known: Known) -> DataFrame:
    """The events of a model's stream, each id once, with arrival and label; that is null where it is not known."""
    stream = model.stream
    events = each_once(events_of(spark, stream, source), stream).events.where(known.asks_for(F.col(ARRIVAL)))
    told = events_of(spark, labels.stream, source).where(known.has(F.col(ARRIVAL)))
    found = _chosen(events, told, model, labels)
    own = [f"`{name}`" for name in stream.schema.names if name != labels.value]
    joined = events.join(found, F.col(f"`{stream.id}`") == F.col(_ID), "left")
    return joined.select(*own, ARRIVAL, _settled(stream.time, labels, known).alias(labels.value))


def _chosen(events: DataFrame, told: DataFrame, model: Model, labels: Labels) -> DataFrame:
    """Of each event that has a label in time, the one that counts."""
    stream, terms = model.stream, terms_of(labels)
    asked = events.select(
        F.col(f"`{stream.id}`").alias(_ID),
        F.unix_micros(F.col(f"`{stream.time}`")).alias(_TIME),
        F.unix_micros(ARRIVAL).alias(_ARRIVED),
    )
    time_us, arrived_us = F.col(_TIME), F.col(_ARRIVED)
    label_time, value = F.col(f"`{labels.stream.time}`"), F.col(f"`{labels.value}`")
    counts = terms.is_in_time(F.unix_micros(label_time), time_us) & terms.meets(
        F.unix_micros(ARRIVAL), time_us, arrived_us
    )
    pairs = told.join(asked, reduce(and_, [told[f"`{stream.id}`"] == F.col(_ID), counts, _is_one(value, labels)]))
    place = F.struct(label_time, ARRIVAL, PARTITION, OFFSET)
    chosen = {"last": F.max_by(value, place), "first": F.min_by(value, place), "any": F.max(value)}[labels.keep]
    return pairs.groupBy(_ID).agg(chosen.alias(_FOUND))


def _is_one(value: Column, labels: Labels) -> Column:
    """Whether a value says anything."""
    is_double = labels.stream.schema.column(labels.value, labels.stream.name).kind is Kind.DOUBLE
    return F.abs(value) < math.inf if is_double else value.isNotNull()  # no NaN either: Spark has it above infinity


def _settled(time: str, labels: Labels, known: Known) -> Column:
    """The label that was found; the default where none can come any more."""
    if labels.default is None:
        return F.col(_FOUND)
    after_us = known.until_us + 1  # all is known that arrived before it
    closed = terms_of(labels).is_closed(F.unix_micros(F.col(f"`{time}`")), F.unix_micros(ARRIVAL), after_us)
    kind = labels.stream.schema.column(labels.value, labels.stream.name).type
    return F.coalesce(F.col(_FOUND), F.when(closed, F.lit(labels.default).cast(kind)))
