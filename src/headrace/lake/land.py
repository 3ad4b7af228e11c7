"""One step of a landing: the records that have come since, written by the executors, committed by the driver.

read so far     end of the log now
├───────────────┼──▶ records ──▶ rows, each once ──▶ a file a day ──▶ one commit: files and positions
                └─ at most so many records a step; of a backlog by several tasks, a file a day of each
"""

import json
import shutil
from collections.abc import Mapping, Sequence
from contextlib import suppress
from functools import reduce
from pathlib import Path
from typing import NamedTuple
from uuid import uuid4

import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import DataFrame, SparkSession

from headrace.lake.files import spark_path
from headrace.lake.landing import DAY, OFFSET, PARTITION
from headrace.lake.rows import records, rows
from headrace.lake.spans import Span, cut, waiting
from headrace.lake.table import UNFINISHED, LakeTable, Position
from headrace.log.offsets import Offsets

FEW = 20_000  # records that one task writes as quickly as several would: fewer files
MOST_TASKS = 8  # of a step: each is a branch of Spark's plan
WRITING: Mapping[str, str] = {
    "spark.sql.parquet.outputTimestampType": "TIMESTAMP_MICROS",
    "spark.sql.parquet.datetimeRebaseModeInWrite": "CORRECTED",
    "spark.sql.unionOutputPartitioning": "false",  # else shares of one task each would all be one task's
}


def writing_session(spark: SparkSession) -> SparkSession:
    """A session with the settings that tables are written with, and no others' settings changed."""
    session = spark.newSession()
    for name, value in WRITING.items():
        session.conf.set(name, value)
    return session


class Step(NamedTuple):
    """How many records a step has taken, how many it has left for the next, and which offsets that begins at."""

    taken: int
    left: int
    reached: Mapping[int, int]


class Lander:
    """Lands one topic in its table, a step at a time."""

    def __init__(self, spark: SparkSession, broker: str, table: LakeTable, most: int) -> None:
        self._spark, self._broker, self.table, self._most = spark, broker, table, most
        self._offsets, self._is_prepared = Offsets(broker), False

    def land(self) -> Step:
        """Land what has come, as much of it as a step takes; after one that failed the table is looked at anew."""
        try:
            return self._step()
        except Exception:
            self._is_prepared = False
            raise

    def _step(self) -> Step:
        self._prepare()
        positions, spans = waiting(self.table, self._offsets)
        taken = cut(spans, self._most)
        if taken:
            self._land({number: positions[number] for number in taken}, taken)
        reached = {number: position.read + 1 for number, position in positions.items()}
        reached |= {number: span.stop for number, span in taken.items()}
        return Step(_records(taken), _records(spans) - _records(taken), reached)

    def unlanded(self, last: Step) -> Step:
        """A step that has failed: it took nothing, and all that has come since the last one is left."""
        with suppress(Exception):  # what has failed may be this as well
            _, spans = waiting(self.table, self._offsets)
            return Step(0, _records(spans), last.reached)
        return Step(0, last.left, last.reached)

    def _prepare(self) -> None:
        if not self._is_prepared:
            self.table.reopen()
            self.table.prepare()
            self._is_prepared = True

    def _land(self, positions: Mapping[int, Position], spans: Mapping[int, Span]) -> None:
        landing = self.table.landing
        landed = {number: position.landed for number, position in positions.items()}
        read = [records(self._spark, self._broker, **_options(landing.topic, share)) for share in shares(spans)]
        # A share is one task's from log to file: where all is in one place, no shuffle is needed to find replays.
        news = [rows(share.coalesce(1), landing, landed) for share in read]
        files = written(reduce(DataFrame.union, news), self.table.folder)
        with self.table.removing_uncommitted(files):
            reached = greatest_offsets(files) if landing.may_replay else {}
            self.table.commit(
                files,
                {
                    number: Position(span.stop - 1, reached.get(number, positions[number].landed))
                    for number, span in spans.items()
                },
            )


def _records(spans: Mapping[int, Span]) -> int:
    return sum(map(len, spans.values()))


def shares(spans: Mapping[int, Span]) -> list[dict[int, Span]]:
    """The spans dealt out to tasks, about as much to each; few records are all one task's.

    >>> shares({0: Span(0, 9), 1: Span(0, 5)})
    [{0: Span(start=0, stop=9), 1: Span(start=0, stop=5)}]
    >>> shares({0: Span(0, 70_000), 1: Span(0, 5)})
    [{0: Span(start=0, stop=70000)}, {1: Span(start=0, stop=5)}]
    """
    tasks = min(len(spans), MOST_TASKS) if _records(spans) > FEW else 1
    longest_first = sorted(spans, key=lambda number: -len(spans[number]))
    return [{number: spans[number] for number in longest_first[task::tasks]} for task in range(tasks)]


def _options(topic: str, spans: Mapping[int, Span]) -> dict[str, str]:
    return {
        "assign": json.dumps({topic: sorted(spans)}),
        "startingOffsets": json.dumps({topic: {str(number): span.start for number, span in spans.items()}}),
        "endingOffsets": json.dumps({topic: {str(number): span.stop for number, span in spans.items()}}),
        "failOnDataLoss": "false",
    }


def written(frame: DataFrame, folder: Path) -> list[Path]:
    """Write a frame into a table's folder under names that only this attempt has: of each task a file a day.

    Spark works in a folder of the attempt's own: a job that outlives its killed driver must not meet the next one.
    """
    attempt = folder / UNFINISHED / uuid4().hex
    try:
        frame.write.partitionBy(DAY).option("compression", "zstd").parquet(spark_path(attempt))
        return _move_files(sorted(attempt.glob(f"{DAY}=*/*.parquet")), folder)
    finally:
        shutil.rmtree(attempt, ignore_errors=True)


def _move_files(files: Sequence[Path], folder: Path) -> list[Path]:
    """Move files to the days of a table; none where one of them cannot be moved."""
    moved: list[Path] = []
    try:
        for file in files:
            moved.append(_moved(file, folder))  # noqa: PERF401  # those before one that fails are removed
    except OSError:
        for file in moved:
            file.unlink(missing_ok=True)
        raise
    return moved


def _moved(file: Path, folder: Path) -> Path:
    day = folder / file.parent.name
    day.mkdir(exist_ok=True)
    return file.rename(day / file.name)


def greatest_offsets(files: Sequence[Path]) -> dict[int, int]:
    """The last hr_offset of each partition in some files."""
    if not files:
        return {}
    places = pa.concat_tables(pq.ParquetFile(file).read([PARTITION, OFFSET]) for file in files)
    last = places.group_by(PARTITION).aggregate([(OFFSET, "max")])
    return dict(zip(last[PARTITION].to_pylist(), last[f"{OFFSET}_max"].to_pylist(), strict=True))
