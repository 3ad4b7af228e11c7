"""Training sets from file to file: a spine read, its features looked up, the result written, and what was found."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.pandas.types import from_arrow_type
from pyspark.sql.types import StructField, StructType

from headrace.declare.views import View
from headrace.errors import HeadraceError
from headrace.lake.lookback import BEFORE, FOUND, NO_KEY, UNKNOWN
from headrace.lake.training import Question, UnfitSpine, in_utc, status_name, with_status

FORMATS = {".parquet": "parquet", ".csv": "csv", ".json": "json", ".jsonl": "json"}
SAID = {
    FOUND: "found",
    BEFORE: "before the entity's first event",
    UNKNOWN: "of an entity never seen",
    NO_KEY: "without a key or a time",
}


class UnknownFormat(HeadraceError):
    """A file whose name does not tell what is in it."""


Batches = Iterator[pa.RecordBatch]
Counts = dict[str, dict[str, int]]


@dataclass(frozen=True)
class Scoring:
    """What adds columns to batches of a training set, the columns it adds, and those of the spine it reads."""

    run: Callable[[Batches], Batches]
    adds: tuple[tuple[str, pa.DataType], ...]
    reads: tuple[str, ...]


def require_known(*files: Path) -> None:
    """Refuse files whose names do not tell what is in them."""
    for file in files:
        _format(file)


def train_files(spark: SparkSession, spine: Path, out: Path, views: Sequence[View], question: Question) -> Counts:
    """Write the training set of a spine; gives how many rows had what to be found, by view."""
    found = _looked_up(spark, spine, views, question)
    _write(found.drop(*map(status_name, views)), out)
    return _counted(found, views)


def training_table(
    spark: SparkSession, spine: Path, views: Sequence[View], question: Question, out: Path | None = None
) -> pa.Table:
    """The training set of a spine, in memory, and in a file where one is named."""
    found = _looked_up(spark, spine, views, question).drop(*map(status_name, views))
    if out is not None:
        _write(found, out)
    return found.toArrow()


def score_files(
    spark: SparkSession, spine: Path, out: Path, views: Sequence[View], question: Question, scoring: Scoring
) -> Counts:
    """Write the training set of a spine with its scores; gives how many rows had what to be found, by view."""
    found = _looked_up(spark, spine, views, question, scoring.reads)
    _write(scored(found.drop(*map(status_name, views)), scoring), out)
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
    rows = _read(spark, spine)
    for name in reads:
        if name not in rows.columns:
            raise UnfitSpine(f"The spine has no column {name!r}. It has {', '.join(rows.columns)}. Add or rename it.")
    return with_status(spark, rows, views, question).localCheckpoint()


def _counted(found: DataFrame, views: Sequence[View]) -> Counts:
    return {view.name: _counts(found, status_name(view)) for view in views}


def _format(file: Path) -> str:
    kind = FORMATS.get(file.suffix)
    if kind is None:
        raise UnknownFormat(f"{str(file)!r}: its kind is not known. Name it with one of {', '.join(FORMATS)}.")
    return kind


def _read(spark: SparkSession, file: Path) -> DataFrame:
    options = {"header": "true", "inferSchema": "true"} if _format(file) == "csv" else {}
    return spark.read.format(_format(file)).options(**options).load(file.resolve().as_uri())


def _write(frame: DataFrame, file: Path) -> None:
    options = {"header": "true"} if _format(file) == "csv" else {}
    frame.write.format(_format(file)).options(**options).mode("overwrite").save(file.resolve().as_uri())


def _counts(frame: DataFrame, status: str) -> dict[str, int]:
    counted = {row[0]: row[1] for row in frame.groupBy(status).count().collect()}
    return {said: counted.get(number, 0) for number, said in SAID.items()}
