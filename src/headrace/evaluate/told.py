"""What is joined, as rows of one shape: the predictions and the labels of a model, from the log or from the lake."""

from dataclasses import dataclass
from typing import Any

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from headrace.declare.labels import Labels
from headrace.declare.model import Model
from headrace.declare.schema import TYPE_OF_KIND
from headrace.declare.stream import Stream
from headrace.evaluate.outcomes import Label, Scored
from headrace.lake import landing
from headrace.lake.files import FIRST_US
from headrace.score.lessons import PREFIX

RECORDS_AT_ONCE = 20_000  # of each topic: bounds the memory of a batch, and how long it takes a core
SCORED, LABEL = "scored", "label"


@dataclass(frozen=True)
class Feed:
    """A model with labels, and the log they are in."""

    model: Model
    broker: str
    records_at_once: int = RECORDS_AT_ONCE

    @property
    def declared(self) -> Labels:
        if self.model.labels is None:
            raise TypeError(f"{self.model.name} has no labels")
        return self.model.labels

    @property
    def labels(self) -> Stream:
        return self.declared.stream

    @property
    def landings(self) -> tuple[landing.Landing, landing.Landing]:
        """The tables of predictions and of labels."""
        return landing.predictions(self.model), landing.silver(self.labels)

    @property
    def tells_its_own_time(self) -> bool:
        """Whether arrivals are those of recorded history: then records move the clock, not the time it is now."""
        return self.labels.is_recorded


def scored(predictions: DataFrame, feed: Feed) -> DataFrame:
    """Rows of the table of predictions; what is none is passed over: whoever can write to it must stop nothing.

    Nothing has a time after the log took it: an event of tomorrow would be remembered until then.
    """
    rows = predictions.select(
        F.lit(SCORED).alias("kind"),
        F.col("id"),
        *(F.col(name) for name in ("version", "role", "decision")),
        _segment(feed.model).alias("segment"),
        _by_now(F.coalesce("event_time", "decided_at")).alias("time_us"),
        _by_now(F.coalesce("arrival", "decided_at")).alias("arrival_us"),
        *_place(),
        F.coalesce("score", F.lit(float("nan"))).alias("value"),
        F.when(F.col("version").startswith(PREFIX), F.col("features")).alias("features"),
    )
    return rows.where(f"id IS NOT NULL AND version IS NOT NULL AND role IS NOT NULL AND time_us > {FIRST_US}")


def labels(events: DataFrame, feed: Feed) -> DataFrame:
    """Rows of the table of clean labels, by the place they had in the raw log."""
    stream = feed.labels
    rows = events.select(
        F.lit(LABEL).alias("kind"),
        F.col(f"`{feed.model.stream.id}`").cast("string").alias("id"),
        *(F.lit(None).cast("string").alias(name) for name in ("version", "role", "decision", "segment")),
        F.unix_micros(F.col(f"`{stream.time}`")).alias("time_us"),
        F.unix_micros(landing.ARRIVAL).alias("arrival_us"),
        *_place(),
        F.col(f"`{feed.declared.value}`").cast("double").alias("value"),
        F.lit(None).cast("string").alias("features"),
    )
    return rows.where("id IS NOT NULL AND time_us IS NOT NULL AND offset IS NOT NULL AND value IS NOT NULL")


def _place() -> list[Column]:
    return [F.col(landing.PARTITION).alias("partition"), F.col(landing.OFFSET).alias("offset")]


def _segment(model: Model) -> Column:
    """The values of its segments, typed, as JSON; one that is not known is left out."""
    kinds = {name: TYPE_OF_KIND[model.known.column(name, model.name).kind] for name in model.segments}
    values = [F.get_json_object("features", f"$['{name}']").try_cast(kind).alias(name) for name, kind in kinds.items()]
    return F.to_json(F.struct(*values)) if values else F.lit("{}")


def _by_now(moment: Column) -> Column:
    return F.when(moment.isNotNull(), F.unix_micros(F.least(moment, F.col(landing.ARRIVAL))))


def record_of(row: Any) -> Scored | Label:
    """A row as the core knows it."""
    if row.kind == LABEL:
        return Label(row.time_us, row.arrival_us, row.partition, row.offset, row.value)
    return Scored(
        row.version,
        row.role,
        row.value,
        row.decision,
        row.segment,
        row.time_us,
        row.arrival_us,
        row.partition,
        row.offset,
        row.features,
    )
