"""Poison records: rows on which a function raises; they become dead letters and are skipped from then on.

    committed ├──────────────── pending rows of the query ────────────────────┤ end, when it failed
                         ✗ payments.clean-0@42 ──▶ abroad, with the error as a header ──gate──▶ abroad.dead

They go through the derived stream's own gate, so that they are counted, shown, ingested and replayed like any dead
letter. The query then continues from its checkpoint: rows written since are written again, and deduplicated by id.
"""

import json
import logging
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import islice
from pathlib import Path
from typing import NamedTuple

import pyarrow as pa
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession

from headrace.errors import HeadraceError
from headrace.kafka.consumers.offset_range import read_offset_range
from headrace.kafka.headers import RAISED_HEADER
from headrace.kafka.offsets import OffsetClient
from headrace.kafka.producer.producer import Producer
from headrace.kafka.record import ConsumerRecord, Partition
from headrace.spark.checkpoints.checkpoint_files import committed_partition_offsets, write_atomically
from headrace.spark.derived_streams.bisection import extract_data_error, find_failing_rows
from headrace.spark.derived_streams.derived_query import (
    SkippedOffsets,
    StreamFunction,
    call_function,
    input_frames,
    to_raw_records,
)
from headrace.spark.execution.lanes import Lane

CHUNK_RECORDS = 10_000
MAX_RECORDS_SCANNED = 50_000  # scans this many even after finding one: a restart for each would be slow
ALWAYS_TOLERATED_RECORDS = 100  # this many may raise, whatever their share
SINGLE_TASK_SETTINGS = ("spark.sql.shuffle.partitions", "spark.sql.leafNodeDefaultParallelism")  # a trial has few rows
LOGGER = logging.getLogger("headrace.stream")
RECORD_SCHEMA = pa.schema(
    [
        ("key", pa.binary()),
        ("value", pa.binary()),
        ("partition", pa.int32()),
        ("offset", pa.int64()),
        ("headers", pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))),
    ]
)


class FunctionFailed(HeadraceError):
    """A function raises, and no single row is the cause."""


class PoisonRecord(NamedTuple):
    """A row that raises, and its error."""

    record: ConsumerRecord
    error: str


@dataclass(frozen=True)
class PoisonRecordHandler:
    """The skipped rows of a derivation, stored with its checkpoint, and the search for more."""

    function: StreamFunction
    broker: str
    checkpoint: Path

    @property
    def skipped_offsets_file(self) -> Path:
        return self.checkpoint.with_name(f"{self.checkpoint.name}.left-out.json")

    def skipped_offsets(self) -> SkippedOffsets:
        """The offsets of the rows that the function does not get."""
        if not self.skipped_offsets_file.exists():
            return {}
        data = json.loads(self.skipped_offsets_file.read_text())
        return {
            Partition(topic, int(number)): frozenset(offsets)
            for topic, partition_offsets in data.items()
            for number, offsets in partition_offsets.items()
        }

    def repair(self, spark: SparkSession, failure: Exception) -> None:
        """Reject the rows that made a query fail; without such rows the failure is raised again."""
        if not isinstance(failure, PySparkException):
            raise failure
        LOGGER.warning("Searches for rows on which %s raises", self.function.derivation.query)
        try:
            poison_records = self._find_poison_records(spark)
        except FunctionFailed:
            raise
        except Exception as error:
            LOGGER.warning("Could not try rows of %s: %s", self.function.derivation.query, error)
            raise failure from error
        if not poison_records:
            raise failure
        self._send_to_gate(poison_records)
        self._save_skipped_offsets(poison_records)

    def _find_poison_records(self, spark: SparkSession) -> list[PoisonRecord]:
        for setting in SINGLE_TASK_SETTINGS:
            spark.conf.set(setting, "1")
        trial, poison_records, scanned_count = FunctionTrial(spark, self.function), list[PoisonRecord](), 0
        trial.require_runnable()
        pending_records = self._pending_records()
        while (rows := list(islice(pending_records, CHUNK_RECORDS))) and (
            not poison_records or scanned_count < MAX_RECORDS_SCANNED
        ):
            poison_records += trial.find_poison_records(rows)
            scanned_count += len(rows)
        if len(poison_records) > max(ALWAYS_TOLERATED_RECORDS, scanned_count // 2):
            raise FunctionFailed(
                f"{self.function.derivation.query}: {len(poison_records)} of {scanned_count} rows raise, the first "
                f"{poison_records[0].error!r}: "
                "that is not a fault of rows. Fix the function, or what it calls, then start again: it continues there."
            )
        return poison_records

    def _pending_records(self) -> Iterator[ConsumerRecord]:
        """The rows since the last commit that are not skipped yet."""
        offsets, skipped = OffsetClient(self.broker), self.skipped_offsets()
        end_offsets = offsets.topic_end_offsets(parent.clean for parent in self.function.parents)
        committed = committed_partition_offsets(self.checkpoint)
        start_offsets = {
            partition: max(start_offset, committed.get(partition, 0))
            for partition, start_offset in offsets.start_offsets(end_offsets).items()
        }
        for record in read_offset_range(self.broker, start_offsets, end_offsets):
            if record.offset not in skipped.get(Partition(record.topic, record.partition), ()):
                yield record

    def _send_to_gate(self, poison_records: Iterable[PoisonRecord]) -> None:
        with Producer(self.broker) as producer:
            for record, error in poison_records:
                LOGGER.warning("%s: %s raises %s", self.function.derivation.query, record.location, error)
                headers = [RAISED_HEADER.write(f"{error} ({record.location})")]
                producer.send(self.function.stream.name, record.value, key=record.key, headers=headers)

    def _save_skipped_offsets(self, poison_records: Iterable[PoisonRecord]) -> None:
        """Add to the skipped offsets; those before the last commit are dropped, since they are not read again."""
        committed, skipped = (
            committed_partition_offsets(self.checkpoint),
            {partition: set(offsets) for partition, offsets in self.skipped_offsets().items()},
        )
        for record, _ in poison_records:
            skipped.setdefault(Partition(record.topic, record.partition), set()).add(record.offset)
        data: dict[str, dict[str, list[int]]] = {}
        for (topic, number), offsets in sorted(skipped.items()):
            uncommitted_offsets = sorted(
                offset for offset in offsets if offset >= committed.get(Partition(topic, number), 0)
            )
            data.setdefault(topic, {})[str(number)] = uncommitted_offsets
        write_atomically(self.skipped_offsets_file, json.dumps(data))


@dataclass(frozen=True)
class FunctionTrial:
    """Runs a function on rows in a batch, and catches its error."""

    spark: SparkSession
    function: StreamFunction

    def require_runnable(self) -> None:
        """Refuse to blame rows where the function raises on none, or cannot run in a batch."""
        error = self.try_rows([])
        if error is not None:
            raise FunctionFailed(
                f"{self.function.derivation.query} raises {error!r} without any row. Fix the function."
            )

    def find_poison_records(self, rows: Sequence[ConsumerRecord]) -> list[PoisonRecord]:
        """The rows that raise alone; then, with several parents, those that raise with all rows of the others."""
        failing_alone = [
            PoisonRecord(*row_and_error)
            for topic_rows in _group_by_topic(rows).values()
            for row_and_error in find_failing_rows(topic_rows, self.try_rows)
        ]
        remaining_rows = _exclude_records(rows, failing_alone)
        if len(self.function.parents) == 1 or self.try_rows(remaining_rows) is None:
            return failing_alone
        return [*failing_alone, *self._find_jointly_failing(remaining_rows)]

    def _find_jointly_failing(self, rows: Sequence[ConsumerRecord]) -> list[PoisonRecord]:
        """The failing rows of the first parent that has any: rejecting one side is enough."""
        for topic, topic_rows in _group_by_topic(rows).items():
            other_rows = [row for row in rows if row.topic != topic]
            if self.try_rows(other_rows) is None:
                failing_rows = find_failing_rows(topic_rows, partial(self._try_rows_with, other_rows))
                if poison_records := [PoisonRecord(*row_and_error) for row_and_error in failing_rows]:
                    return poison_records
        return []

    def _try_rows_with(self, other_rows: Sequence[ConsumerRecord], rows: Sequence[ConsumerRecord]) -> str | None:
        return self.try_rows([*other_rows, *rows])

    def try_rows(self, rows: Sequence[ConsumerRecord]) -> str | None:
        """The function's error on exactly these rows; None where it succeeds."""
        try:
            self._apply_function(rows).write.format("noop").mode("overwrite").save()
        except PySparkException as error:
            data_error = extract_data_error(str(error), error.getSqlState())
            if data_error is None:
                raise
            return data_error
        return None

    def _apply_function(self, rows: Sequence[ConsumerRecord]) -> DataFrame:
        rows_by_topic = _group_by_topic(rows)
        clean_frames = [self._to_frame(rows_by_topic.get(parent.clean, [])) for parent in self.function.parents]
        result = call_function(self.function, input_frames(self.function, clean_frames, Lane.MICRO_BATCH))
        return to_raw_records(result, self.function.stream)

    def _to_frame(self, rows: Sequence[ConsumerRecord]) -> DataFrame:
        return self.spark.createDataFrame(pa.Table.from_pylist([_to_row(record) for record in rows], RECORD_SCHEMA))


def _to_row(record: ConsumerRecord) -> Mapping[str, object]:
    headers = [{"key": key, "value": value} for key, value in record.headers or ()]
    return {
        "key": record.key,
        "value": record.value,
        "partition": record.partition,
        "offset": record.offset,
        "headers": headers,
    }


def _group_by_topic(rows: Sequence[ConsumerRecord]) -> dict[str, list[ConsumerRecord]]:
    rows_by_topic: dict[str, list[ConsumerRecord]] = {}
    for row in rows:
        rows_by_topic.setdefault(row.topic, []).append(row)
    return rows_by_topic


def _exclude_records(rows: Sequence[ConsumerRecord], poison_records: Sequence[PoisonRecord]) -> list[ConsumerRecord]:
    locations = {poison_record.record.location for poison_record in poison_records}
    return [row for row in rows if row.location not in locations]
