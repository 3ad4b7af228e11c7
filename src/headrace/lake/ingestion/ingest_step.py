"""One step of ingestion: executors write the new records, the driver commits them.

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

from headrace.kafka.offsets import OffsetClient
from headrace.lake.formats.parquet_files import spark_path
from headrace.lake.ingestion.pending_offsets import OffsetSpan, limit_spans, pending_spans
from headrace.lake.ingestion.record_rows import read_records, to_new_rows
from headrace.lake.ingestion.table_mapping import DAY, OFFSET, PARTITION
from headrace.lake.lake_table import UNFINISHED_FOLDER, LakeTable, TablePosition

SINGLE_TASK_RECORDS = 20_000  # one task writes this many as quickly as several would, into fewer files
MAX_TASKS = 8  # in a step: each is a branch of Spark's plan
WRITE_SETTINGS: Mapping[str, str] = {
    "spark.sql.parquet.outputTimestampType": "TIMESTAMP_MICROS",
    "spark.sql.parquet.datetimeRebaseModeInWrite": "CORRECTED",
    "spark.sql.unionOutputPartitioning": "false",  # else Spark would merge the branches into one task
}


def new_write_session(spark: SparkSession) -> SparkSession:
    """A session with the settings for writing tables, which leaves the settings of others unchanged."""
    session = spark.newSession()
    for name, value in WRITE_SETTINGS.items():
        session.conf.set(name, value)
    return session


class IngestStepResult(NamedTuple):
    """How many records a step has ingested, how many are left for the next, and the offsets at which that starts."""

    ingested: int
    remaining: int
    next_offsets: Mapping[int, int]


class TableIngester:
    """Ingests one topic into its table, a step at a time."""

    def __init__(self, spark: SparkSession, broker: str, table: LakeTable, max_records: int) -> None:
        self._spark, self._broker, self.table, self._max_records = spark, broker, table, max_records
        self._offset_client, self._is_prepared = OffsetClient(broker), False

    def ingest(self) -> IngestStepResult:
        """Ingest new records, up to the limit of a step; after a failed step the table is opened again."""
        try:
            return self._run_step()
        except Exception:
            self._is_prepared = False
            raise

    def _run_step(self) -> IngestStepResult:
        self._prepare()
        positions, spans = pending_spans(self.table, self._offset_client)
        selected = limit_spans(spans, self._max_records)
        if selected:
            self._ingest_spans({partition: positions[partition] for partition in selected}, selected)
        next_offsets = {number: position.last_read + 1 for number, position in positions.items()}
        next_offsets |= {number: span.stop for number, span in selected.items()}
        return IngestStepResult(
            _count_records(selected), _count_records(spans) - _count_records(selected), next_offsets
        )

    def failed_step_result(self, last_result: IngestStepResult) -> IngestStepResult:
        """The result of a failed step: it ingested nothing, and everything since the last one is left."""
        with suppress(Exception):  # this may fail as well
            _, spans = pending_spans(self.table, self._offset_client)
            return IngestStepResult(0, _count_records(spans), last_result.next_offsets)
        return IngestStepResult(0, last_result.remaining, last_result.next_offsets)

    def _prepare(self) -> None:
        if not self._is_prepared:
            self.table.reopen()
            self.table.prepare()
            self._is_prepared = True

    def _ingest_spans(self, positions: Mapping[int, TablePosition], spans: Mapping[int, OffsetSpan]) -> None:
        mapping = self.table.mapping
        last_written = {partition: position.last_written for partition, position in positions.items()}
        frames = [
            read_records(self._spark, self._broker, **_kafka_options(mapping.topic, task_share))
            for task_share in split_among_tasks(spans)
        ]
        # A branch has one task from log to file: with all records in one task, finding replays needs no shuffle.
        new_rows = [to_new_rows(share.coalesce(1), mapping, last_written) for share in frames]
        files = write_parquet_files(reduce(DataFrame.union, new_rows), self.table.folder)
        with self.table.remove_on_failure(files):
            written_offsets = max_offsets(files) if mapping.may_replay else {}
            self.table.commit(
                files,
                {
                    number: TablePosition(span.stop - 1, written_offsets.get(number, positions[number].last_written))
                    for number, span in spans.items()
                },
            )


def _count_records(spans: Mapping[int, OffsetSpan]) -> int:
    return sum(map(len, spans.values()))


def split_among_tasks(spans: Mapping[int, OffsetSpan]) -> list[dict[int, OffsetSpan]]:
    """Divide the spans among tasks, about equally; few records stay with one task.

    >>> split_among_tasks({0: OffsetSpan(0, 9), 1: OffsetSpan(0, 5)})
    [{0: OffsetSpan(start=0, stop=9), 1: OffsetSpan(start=0, stop=5)}]
    >>> split_among_tasks({0: OffsetSpan(0, 70_000), 1: OffsetSpan(0, 5)})
    [{0: OffsetSpan(start=0, stop=70000)}, {1: OffsetSpan(start=0, stop=5)}]
    """
    task_count = min(len(spans), MAX_TASKS) if _count_records(spans) > SINGLE_TASK_RECORDS else 1
    longest_first = sorted(spans, key=lambda partition: -len(spans[partition]))
    return [{number: spans[number] for number in longest_first[task::task_count]} for task in range(task_count)]


def _kafka_options(topic: str, spans: Mapping[int, OffsetSpan]) -> dict[str, str]:
    return {
        "assign": json.dumps({topic: sorted(spans)}),
        "startingOffsets": json.dumps({topic: {str(partition): span.start for partition, span in spans.items()}}),
        "endingOffsets": json.dumps({topic: {str(number): span.stop for number, span in spans.items()}}),
        "failOnDataLoss": "false",
    }


def write_parquet_files(frame: DataFrame, folder: Path) -> list[Path]:
    """Write a frame into a table's folder under names unique to this attempt: for each task a file a day.

    Spark writes to a folder of this attempt: a job that outlives its killed driver must not collide with the next one.
    """
    attempt_folder = folder / UNFINISHED_FOLDER / uuid4().hex
    try:
        frame.write.partitionBy(DAY).option("compression", "zstd").parquet(spark_path(attempt_folder))
        return _move_files(sorted(attempt_folder.glob(f"{DAY}=*/*.parquet")), folder)
    finally:
        shutil.rmtree(attempt_folder, ignore_errors=True)


def _move_files(files: Sequence[Path], folder: Path) -> list[Path]:
    """Move files to the day folders of a table; all of them or none."""
    moved: list[Path] = []
    try:
        for file in files:
            moved.append(_move_file(file, folder))  # noqa: PERF401  # after a failure the moved ones are removed
    except OSError:
        for file in moved:
            file.unlink(missing_ok=True)
        raise
    return moved


def _move_file(file: Path, folder: Path) -> Path:
    day_folder = folder / file.parent.name
    day_folder.mkdir(exist_ok=True)
    return file.rename(day_folder / file.name)


def max_offsets(files: Sequence[Path]) -> dict[int, int]:
    """The last hr_offset of each partition in these files."""
    if not files:
        return {}
    offset_rows = pa.concat_tables(pq.ParquetFile(file).read([PARTITION, OFFSET]) for file in files)
    maxima = offset_rows.group_by(PARTITION).aggregate([(OFFSET, "max")])
    return dict(zip(maxima[PARTITION].to_pylist(), maxima[f"{OFFSET}_max"].to_pylist(), strict=True))
