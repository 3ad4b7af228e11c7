"""Training sets from file to file: reads a spine, looks up features, writes the result, and counts statuses."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.pandas.types import from_arrow_type
from pyspark.sql.types import StructField, StructType

from headrace.declare.features.view import View
from headrace.declare.streams.schema import Kind
from headrace.lake.historical_features import BEFORE_FIRST_EVENT, FOUND, NO_KEY, UNKNOWN_ENTITY
from headrace.lake.training.spine_files import read_spine, require_known_formats, write_rows
from headrace.lake.training.spine_times import time_column_us
from headrace.lake.training.training_set import (
    InvalidSpineError,
    TrainingSetRequest,
    status_column,
    to_utc,
    training_set_with_status,
)

__all__ = [
    "BatchScoring",
    "StatusCounts",
    "add_scores",
    "build_training_table",
    "require_known_formats",
    "write_scored_spine",
    "write_training_set",
]
STATUS_TEXTS = {
    FOUND: "found",
    BEFORE_FIRST_EVENT: "before the entity's first event",
    UNKNOWN_ENTITY: "of an entity never seen",
    NO_KEY: "without a key or a time",
}


Batches = Iterator[pa.RecordBatch]
StatusCounts = dict[str, dict[str, int]]


@dataclass(frozen=True)
class BatchScoring:
    """The function that adds columns to batches of a training set, its output columns, and its spine columns."""

    run: Callable[[Batches], Batches]
    added_columns: tuple[tuple[str, pa.DataType], ...]
    required_columns: tuple[str, ...]


def write_training_set(
    spark: SparkSession, spine: Path, out: Path, views: Sequence[View], request: TrainingSetRequest
) -> StatusCounts:
    """Write the training set of a spine; returns how many rows had features, by view."""
    rows = _look_up_features(spark, spine, views, request)
    write_rows(rows.drop(*map(status_column, views)), out)
    return _count_statuses_by_view(rows, views)


def build_training_table(
    spark: SparkSession, spine: Path, views: Sequence[View], request: TrainingSetRequest, out: Path | None = None
) -> pa.Table:
    """The training set of a spine, in memory, and in a file if one is named."""
    rows = _look_up_features(spark, spine, views, request).drop(*map(status_column, views))
    if out is not None:
        write_rows(rows, out)
    return rows.toArrow()


def write_scored_spine(
    spark: SparkSession,
    spine: Path,
    out: Path,
    views: Sequence[View],
    request: TrainingSetRequest,
    scoring: BatchScoring,
) -> StatusCounts:
    """Write the training set of a spine with scores; returns how many rows had features, by view."""
    rows = _look_up_features(spark, spine, views, request, scoring.required_columns)
    write_rows(add_scores(rows.drop(*map(status_column, views)), scoring), out)
    return _count_statuses_by_view(rows, views)


def add_scores(frame: DataFrame, scoring: BatchScoring) -> DataFrame:
    """A training set with its scores."""
    added_fields = [StructField(name, from_arrow_type(arrow_type)) for name, arrow_type in scoring.added_columns]
    run = scoring.run

    def run_in_utc(batches: Batches) -> Batches:
        for batch in run(batches):
            yield pa.RecordBatch.from_arrays([to_utc(column) for column in batch.columns], batch.schema.names)

    return frame.mapInArrow(run_in_utc, StructType([*frame.schema.fields, *added_fields]))


def _look_up_features(
    spark: SparkSession,
    spine: Path,
    views: Sequence[View],
    request: TrainingSetRequest,
    required_columns: Sequence[str] = (),
) -> DataFrame:
    """The training set of a spine, computed once for the file and the counts."""
    time = request.time or views[0].streams[0].time
    text_keys = {column.name for view in views for column in view.entity if column.kind is Kind.STRING}
    rows = read_spine(spark, spine, text_keys, time)
    if time in rows.columns:  # else a later check reports the missing column
        rows = rows.withColumn(time, F.timestamp_micros(time_column_us(rows, time)))
    for name in required_columns:
        if name not in rows.columns:
            raise InvalidSpineError(
                f"The spine has no column {name!r}. It has {', '.join(rows.columns)}. Add or rename it."
            )
    return training_set_with_status(spark, rows, views, request).localCheckpoint()


def _count_statuses_by_view(rows: DataFrame, views: Sequence[View]) -> StatusCounts:
    return {view.name: _count_statuses(rows, status_column(view)) for view in views}


def _count_statuses(frame: DataFrame, column: str) -> dict[str, int]:
    counts = {row[0]: row[1] for row in frame.groupBy(column).count().collect()}
    return {text: counts.get(status, 0) for status, text in STATUS_TEXTS.items()}
