"""Training sets from file to file: a spine read, its features looked up, the result written, and what was found."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.pandas.types import from_arrow_type
from pyspark.sql.types import StructField, StructType

from headrace.declare.schema import Kind
from headrace.declare.views import View
from headrace.lake.lookback import BEFORE, FOUND, NO_KEY, UNKNOWN
from headrace.lake.spine_files import read_spine, require_known, write_rows
from headrace.lake.spine_times import times_us
from headrace.lake.training import Question, UnfitSpine, in_utc, status_name, with_status

__all__ = ["Counts", "Scoring", "require_known", "score_files", "scored", "train_files", "training_table"]
SAID = {
    FOUND: "found",
    BEFORE: "before the entity's first event",
    UNKNOWN: "of an entity never seen",
    NO_KEY: "without a key or a time",
}


Batches = Iterator[pa.RecordBatch]
Counts = dict[str, dict[str, int]]


@dataclass(frozen=True)
class Scoring:
    """What adds columns to batches of a training set, the columns it adds, and those of the spine it reads."""

    run: Callable[[Batches], Batches]
    adds: tuple[tuple[str, pa.DataType], ...]
    reads: tuple[str, ...]


def train_files(spark: SparkSession, spine: Path, out: Path, views: Sequence[View], question: Question) -> Counts:
    """Write the training set of a spine; gives how many rows had what to be found, by view."""
    found = _looked_up(spark, spine, views, question)
    write_rows(found.drop(*map(status_name, views)), out)
    return _counted(found, views)


def training_table(
    spark: SparkSession, spine: Path, views: Sequence[View], question: Question, out: Path | None = None
) -> pa.Table:
    """The training set of a spine, in memory, and in a file where one is named."""
    found = _looked_up(spark, spine, views, question).drop(*map(status_name, views))
    if out is not None:
        write_rows(found, out)
    return found.toArrow()


def score_files(
    spark: SparkSession, spine: Path, out: Path, views: Sequence[View], question: Question, scoring: Scoring
) -> Counts:
    """Write the training set of a spine with its scores; gives how many rows had what to be found, by view."""
    found = _looked_up(spark, spine, views, question, scoring.reads)
    write_rows(scored(found.drop(*map(status_name, views)), scoring), out)
    return _counted(found, views)


def scored(frame: DataFrame, scoring: Scoring) -> DataFrame:
    """A training set with its scores."""
    added = [StructField(name, from_arrow_type(kind)) for name, kind in scoring.adds]
    run = scoring.run

    def run_in_utc(batches: Batches) -> Batches:
        for batch in run(batches):
            yield pa.RecordBatch.from_arrays([in_utc(column) for column in batch.columns], batch.schema.names)

    return frame.mapInArrow(run_in_utc, StructType([*frame.schema.fields, *added]))


def _looked_up(
    spark: SparkSession, spine: Path, views: Sequence[View], question: Question, reads: Sequence[str] = ()
) -> DataFrame:
    """The training set of a spine, computed once: for the file and for the counts."""
    time = question.time or views[0].streams[0].time
    keys = {column.name for view in views for column in view.entity if column.kind is Kind.STRING}
    rows = read_spine(spark, spine, keys, time)
    if time in rows.columns:  # else it is told what is missing
        rows = rows.withColumn(time, F.timestamp_micros(times_us(rows, time)))
    for name in reads:
        if name not in rows.columns:
            raise UnfitSpine(f"The spine has no column {name!r}. It has {', '.join(rows.columns)}. Add or rename it.")
    return with_status(spark, rows, views, question).localCheckpoint()


def _counted(found: DataFrame, views: Sequence[View]) -> Counts:
    return {view.name: _counts(found, status_name(view)) for view in views}


def _counts(frame: DataFrame, status: str) -> dict[str, int]:
    counted = {row[0]: row[1] for row in frame.groupBy(status).count().collect()}
    return {said: counted.get(number, 0) for number, said in SAID.items()}
