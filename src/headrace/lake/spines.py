"""Training sets from file to file: a spine read, its features looked up, the result written, and what was found."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from pyspark.sql import DataFrame, SparkSession

from headrace.declare.views import View
from headrace.errors import HeadraceError
from headrace.lake.lookback import BEFORE, FOUND, NO_KEY, UNKNOWN
from headrace.lake.training import AsOf, Question, Source, status_name, with_status

FORMATS = {".parquet": "parquet", ".csv": "csv", ".json": "json", ".jsonl": "json"}
SAID = {
    FOUND: "found",
    BEFORE: "before the entity's first event",
    UNKNOWN: "of an entity never seen",
    NO_KEY: "without a key or a time",
}


class UnknownFormat(HeadraceError):
    """A file whose name does not tell what is in it."""


@dataclass(frozen=True)
class SpineFiles:
    """What to read and write, and the spine's column of times if it is not the stream's."""

    spine: Path
    out: Path
    time: str | None = None

    def require_known(self) -> None:
        for file in (self.spine, self.out):
            _format(file)


def train_files(
    spark: SparkSession, files: SpineFiles, views: Sequence[View], as_of: AsOf, source: Source
) -> dict[str, dict[str, int]]:
    """Write the training set of a spine; gives how many rows had what to be found, by view."""
    files.require_known()
    frame = with_status(spark, _read(spark, files.spine), views, Question(as_of, source, files.time))
    found = frame.localCheckpoint()  # computed once, for the file and for the counts
    _write(found.drop(*map(status_name, views)), files.out)
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
