"""Delivers the records of a sink as batches of rows, with the declared guarantee; finds, parks and skips bad rows.

pending rows ──▶ batch ──▶ written
                   ├ target unavailable ──▶ exponential back-off; nothing is read meanwhile, nothing is lost
                   └ rejected, three times ──▶ halves ──▶ halves ──▶ the bad row ──▶ SINK.parked
"""

import logging
import threading
import time
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Protocol

from headrace.connectors.sinks.feature_rows import create_row_reader
from headrace.connectors.sinks.parked_rows import ParkedRowWriter, ParkingFailed
from headrace.connectors.sinks.sink_rows import SinkRow
from headrace.connectors.sinks.writer import OffsetMove, RowsRejected, SinkFencedError, SinkWriter, TargetUnavailable
from headrace.declare.sinks.sink import Sink
from headrace.errors import HeadraceError
from headrace.kafka.consumers.external_offset_consumer import ExternalOffset, ExternalOffsets
from headrace.kafka.consumers.tailing_consumer import HandlerInterrupted
from headrace.kafka.ledger import reason_code
from headrace.kafka.record import ConsumerRecord, Partition
from headrace.telemetry.webhooks.webhook_client import RetryPolicy

LOGGER = logging.getLogger("headrace.sink")
RETRY_POLICY = RetryPolicy(max_attempts=3, first_pause_seconds=0.2, max_pause_seconds=30.0)
MAX_BACKOFF_DOUBLINGS = 20


class SinkConsumer(Protocol):
    """The consumer group, which stores the offsets when the target does not."""

    def commit_offsets(self, offsets: Mapping[Partition, ExternalOffset], *, is_synchronous: bool = True) -> None:
        """Commit offsets to the group."""

    def seek_to(self, offsets: Mapping[Partition, ExternalOffset]) -> None:
        """Continue reading from other offsets."""

    @property
    def stop_event(self) -> threading.Event:
        """Set when the consumer has to stop."""


@dataclass(frozen=True)
class SinkBatch:
    """Rows in flight and the offsets they move; `is_committed` if the offsets were committed before the write."""

    rows: tuple[SinkRow, ...]
    offsets_before: ExternalOffsets
    offsets_after: ExternalOffsets
    is_split: bool = False
    is_committed: bool = False

    @property
    def offset_moves(self) -> dict[Partition, OffsetMove]:
        return {
            partition: OffsetMove(self.offsets_before[partition], offset_after)
            for partition, offset_after in self.offsets_after.items()
        }

    def split_in_half(self) -> list["SinkBatch"]:
        """The two halves of this batch, in order."""
        half_count = len(self.rows) // 2
        middle_offsets = {row.source_partition: row.offset_after for row in self.rows[:half_count]}
        first_half = SinkBatch(
            self.rows[:half_count],
            {partition: self.offsets_before[partition] for partition in middle_offsets},
            middle_offsets,
            True,
            self.is_committed,
        )
        return [
            first_half,
            SinkBatch(
                self.rows[half_count:],
                self.offsets_before | middle_offsets,
                self.offsets_after,
                True,
                self.is_committed,
            ),
        ]

    def exclude_partitions(self, revoked: Collection[Partition]) -> "SinkBatch":
        """This batch without the rows and offsets of revoked partitions."""
        rows = tuple(row for row in self.rows if row.source_partition not in revoked)
        return replace(
            self,
            rows=rows,
            offsets_before=_exclude_partitions(self.offsets_before, revoked),
            offsets_after=_exclude_partitions(self.offsets_after, revoked),
        )


class SinkProcessor:
    """Writes the records of a sink to its target; all calls happen in the consumer's thread."""

    def __init__(self, sink: Sink, writer: SinkWriter, parked_row_writer: ParkedRowWriter) -> None:
        self.fate_counts: Counter[str] = Counter()
        self.reason_counts: Counter[str] = Counter()
        self.retry_count = 0
        self.error = ""
        self.consumer: SinkConsumer
        self._sink, self._writer, self._parked_row_writer = sink, writer, parked_row_writer
        self._row_reader = create_row_reader(sink)
        self._next_offsets: ExternalOffsets = {}
        self._committed_offsets: ExternalOffsets = {}
        self._pending_rows: list[SinkRow] = []
        self._in_flight_batches: list[SinkBatch] = []
        self._attempt_count, self._rejection_count, self._retry_at, self._pending_since = 0, 0, 0.0, 0.0

    def on_partitions_assigned(self, committed: Mapping[Partition, ExternalOffset]) -> ExternalOffsets:
        start_offsets = self._fetch_start_offsets(committed)
        self._next_offsets |= start_offsets
        self._committed_offsets |= start_offsets
        return self._row_reader.start_offsets(start_offsets)

    def add_records(self, records: Sequence[ConsumerRecord]) -> None:
        self._row_reader.observe_records(records)
        if not self._pending_rows:
            self._pending_since = time.monotonic()
        for record in records:
            partition = Partition(record.topic, record.partition)
            if partition not in self._next_offsets or record.offset < self._next_offsets[partition].next_offset:
                continue
            row, self._next_offsets[partition] = self._row_reader.read_row(record, self._next_offsets[partition])
            if row is None:
                self.fate_counts["skipped"] += 1
            else:
                self._pending_rows.append(row)

    def process_ready(self) -> bool:
        if time.monotonic() < self._retry_at:
            return False
        while (batch := self._next_batch()) is not None:
            if not self._process_batch(batch):
                return False
        return True

    def on_partitions_revoked(self, partitions: Sequence[Partition]) -> None:
        revoked = frozenset(partitions)
        self._pending_rows = [row for row in self._pending_rows if row.source_partition not in revoked]
        self._in_flight_batches = [batch.exclude_partitions(revoked) for batch in self._in_flight_batches]
        self._next_offsets, self._committed_offsets = (
            _exclude_partitions(self._next_offsets, revoked),
            _exclude_partitions(self._committed_offsets, revoked),
        )

    def _fetch_start_offsets(self, committed: Mapping[Partition, ExternalOffset]) -> ExternalOffsets:
        """The start offsets from the target, or else from the group; waits for a target that is unavailable."""
        while self._writer.stores_offsets and self._sink.delivery == "exactly_once":
            try:
                start_offsets = self._writer.read_offsets(committed)
            except TargetUnavailable as error:
                self._back_off(error)
                if self.consumer.stop_event.wait(max(0.0, self._retry_at - time.monotonic())):
                    raise HandlerInterrupted from error
            else:
                self._reset_backoff()
                return start_offsets
        return dict(committed)

    def _next_batch(self) -> SinkBatch | None:
        """The batch in flight, or a new one once enough rows are pending or their linger time has passed."""
        if self._in_flight_batches:
            return self._in_flight_batches[-1]
        max_rows, is_due = self._writer.max_rows, time.monotonic() >= self._pending_since + self._writer.linger_s
        if self._next_offsets == self._committed_offsets or (len(self._pending_rows) < max_rows and not is_due):
            return None
        rows, self._pending_rows = self._pending_rows[:max_rows], self._pending_rows[max_rows:]
        next_offsets = (
            {row.source_partition: row.offset_after for row in rows} if self._pending_rows else self._next_offsets
        )
        offsets_after = {
            partition: offset
            for partition, offset in next_offsets.items()
            if offset != self._committed_offsets[partition]
        }
        self._in_flight_batches.append(
            SinkBatch(tuple(rows), {at: self._committed_offsets[at] for at in offsets_after}, offsets_after)
        )
        return self._in_flight_batches[-1]

    def _process_batch(self, batch: SinkBatch) -> bool:
        """Whether the batch in flight made progress: written, split, parked, or left to another copy of the sink."""
        try:
            return self._deliver_or_split(batch)
        except SinkFencedError as error:
            LOGGER.warning("%s", error)
            self._restart_from(self._fetch_start_offsets(self._committed_offsets))
        except HeadraceError as error:
            if not self._in_flight_batches[-1].is_committed or isinstance(error, ParkingFailed):
                return self._back_off(error)
            LOGGER.error("Lost %d rows, which delivery='at_most_once' allows: %s", len(batch.rows), error)
            self._finish_batch("lost")
        return True

    def _deliver_or_split(self, batch: SinkBatch) -> bool:
        try:
            self._deliver(batch)
        except RowsRejected as rejection:
            return self._handle_rejection(rejection)
        self._finish_batch("written")
        return True

    def _deliver(self, batch: SinkBatch) -> None:
        problem = next((row.problem for row in batch.rows if row.problem), None)
        if problem is not None:
            raise RowsRejected(problem)
        if self._sink.delivery == "at_most_once":
            self._commit_before_write(batch)
            self._writer.write(batch.rows)
        elif self._sink.delivery == "exactly_once" and self._writer.stores_offsets:
            self._writer.write(batch.rows, batch.offset_moves)
            self.consumer.commit_offsets(batch.offsets_after, is_synchronous=False)  # for tools that monitor groups
        else:
            self._writer.write(batch.rows)
            self.consumer.commit_offsets(batch.offsets_after)

    def _commit_before_write(self, batch: SinkBatch) -> None:
        """Commit the offsets before the rows are written, once the target is reachable."""
        if not batch.is_committed:
            self._writer.open()
            self.consumer.commit_offsets(batch.offsets_after)
            self._in_flight_batches[-1] = replace(self._in_flight_batches[-1], is_committed=True)

    def _handle_rejection(self, rejection: RowsRejected) -> bool:
        """Retry a few times, then find the bad row by bisection and park it."""
        batch = self._in_flight_batches[-1]
        self._rejection_count += 1
        is_known_bad = batch.is_split or any(row.problem for row in batch.rows)
        if not is_known_bad and self._rejection_count < RETRY_POLICY.max_attempts:
            return self._back_off(rejection)
        if len(batch.rows) > 1:
            self._in_flight_batches[-1:] = reversed(batch.split_in_half())
            return True
        self._park_rows(batch, rejection)
        return True

    def _park_rows(self, batch: SinkBatch, rejection: RowsRejected) -> None:
        for row in batch.rows:
            self._parked_row_writer.park_row(row, str(rejection))
            self.reason_counts[reason_code(str(rejection))] += 1
            LOGGER.warning("Parked a row of %s from %s: %s", self._sink.name, row.location, rejection)
        self._deliver(replace(batch, rows=()))  # moves the offsets
        self._finish_batch("parked")

    def _finish_batch(self, fate: str) -> None:
        batch = self._in_flight_batches.pop()
        self.fate_counts[fate] += len(batch.rows)
        self._committed_offsets |= batch.offsets_after
        self._reset_backoff()

    def _reset_backoff(self) -> None:
        self._attempt_count, self._rejection_count, self._retry_at, self.error = 0, 0, 0.0, ""

    def _back_off(self, error: Exception) -> bool:
        """Schedule the next attempt with exponential back-off; returns False."""
        if str(error) != self.error:
            LOGGER.warning("%s", error)
        self.error = str(error)
        self._retry_at = time.monotonic() + RETRY_POLICY.next_pause_seconds(
            min(self._attempt_count, MAX_BACKOFF_DOUBLINGS)
        )
        self._attempt_count += 1
        self.retry_count += 1
        return False

    def _restart_from(self, start_offsets: ExternalOffsets) -> None:
        """Drop pending rows and batches, and continue reading from the given offsets."""
        self._pending_rows, self._in_flight_batches = [], []
        seek_offsets = {
            partition: offset
            for partition, offset in start_offsets.items()
            if offset != self._next_offsets.get(partition)
        }
        self._next_offsets |= start_offsets
        self._committed_offsets |= start_offsets
        self.consumer.seek_to(seek_offsets)


def _exclude_partitions(offsets: ExternalOffsets, revoked: Collection[Partition]) -> ExternalOffsets:
    return {partition: offset for partition, offset in offsets.items() if partition not in revoked}
