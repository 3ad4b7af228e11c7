"""The inputs of the label join as rows of one shape: a model's predictions and labels, from the log or the lake."""

from dataclasses import dataclass
from typing import Any

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from headrace.declare.models.labels import Labels
from headrace.declare.models.model import Model
from headrace.declare.streams.schema import TYPE_OF_KIND
from headrace.declare.streams.stream import Stream
from headrace.lake.formats.parquet_files import MIN_TIMESTAMP_US
from headrace.lake.ingestion import table_mapping
from headrace.models.online_learning.online_updates import VERSION_PREFIX
from headrace.monitoring.outcomes.outcomes import LabelEvent, PredictionEvent

MAX_BATCH_RECORDS = 20_000  # of each topic: limits the memory and the duration of a batch
PREDICTION_KIND, LABEL_KIND = "scored", "label"


@dataclass(frozen=True)
class LabelJoinInputs:
    """A model with labels, and the broker of its log."""

    model: Model
    broker: str
    max_batch_records: int = MAX_BATCH_RECORDS

    @property
    def label_declaration(self) -> Labels:
        if self.model.labels is None:
            raise TypeError(f"{self.model.name} has no labels")
        return self.model.labels

    @property
    def label_stream(self) -> Stream:
        return self.label_declaration.stream

    @property
    def mappings(self) -> tuple[table_mapping.TableMapping, table_mapping.TableMapping]:
        """The tables of predictions and of labels."""
        return table_mapping.predictions_mapping(self.model), table_mapping.silver_mapping(self.label_stream)

    @property
    def is_recorded(self) -> bool:
        """Whether arrivals are recorded history: then records advance the clock, not the current time."""
        return self.label_stream.is_recorded


def prediction_rows(predictions: DataFrame, inputs: LabelJoinInputs) -> DataFrame:
    """Rows of the table of predictions; invalid ones are skipped, so that no producer can stop the join.

    Times are at most the append time: an event of tomorrow would stay in state until then.
    """
    rows = predictions.select(
        F.lit(PREDICTION_KIND).alias("kind"),
        F.col("id"),
        *(F.col(name) for name in ("version", "role", "decision")),
        _segment_json(inputs.model).alias("segment"),
        _clamp_to_arrival(F.coalesce("event_time", "decided_at")).alias("time_us"),
        _clamp_to_arrival(F.coalesce("arrival", "decided_at")).alias("arrival_us"),
        *_offset_columns(),
        F.coalesce("score", F.lit(float("nan"))).alias("value"),
        F.when(F.col("version").startswith(VERSION_PREFIX), F.col("features")).alias("features"),
    )
    return rows.where(f"id IS NOT NULL AND version IS NOT NULL AND role IS NOT NULL AND time_us > {MIN_TIMESTAMP_US}")


def label_rows(events: DataFrame, inputs: LabelJoinInputs) -> DataFrame:
    """Rows of the table of clean labels, by their offset in the raw log."""
    stream = inputs.label_stream
    rows = events.select(
        F.lit(LABEL_KIND).alias("kind"),
        F.col(f"`{inputs.model.stream.id}`").cast("string").alias("id"),
        *(F.lit(None).cast("string").alias(name) for name in ("version", "role", "decision", "segment")),
        F.unix_micros(F.col(f"`{stream.time}`")).alias("time_us"),
        F.unix_micros(table_mapping.ARRIVAL).alias("arrival_us"),
        *_offset_columns(),
        F.col(f"`{inputs.label_declaration.value}`").cast("double").alias("value"),
        F.lit(None).cast("string").alias("features"),
    )
    return rows.where("id IS NOT NULL AND time_us IS NOT NULL AND offset IS NOT NULL AND value IS NOT NULL")


def _offset_columns() -> list[Column]:
    return [F.col(table_mapping.PARTITION).alias("partition"), F.col(table_mapping.OFFSET).alias("offset")]


def _segment_json(model: Model) -> Column:
    """The values of its segments, typed, as JSON; unknown ones are left out."""
    types = {name: TYPE_OF_KIND[model.known.column(name, model.name).kind] for name in model.segments}
    values = [
        F.get_json_object("features", f"$['{name}']").try_cast(spark_type).alias(name)
        for name, spark_type in types.items()
    ]
    return F.to_json(F.struct(*values)) if values else F.lit("{}")


def _clamp_to_arrival(timestamp: Column) -> Column:
    return F.when(timestamp.isNotNull(), F.unix_micros(F.least(timestamp, F.col(table_mapping.ARRIVAL))))


def to_record(row: Any) -> PredictionEvent | LabelEvent:
    """A row as the join's records."""
    if row.kind == LABEL_KIND:
        return LabelEvent(row.time_us, row.arrival_us, row.partition, row.offset, row.value)
    return PredictionEvent(
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
