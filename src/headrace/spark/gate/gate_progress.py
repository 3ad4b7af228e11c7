"""Determines how far the gate of a stream has processed its raw records, from the records it has written.

    raw     17 18 19 20 21 22│        raw end: 23
    .clean  17 18 ·  ·  ·  · │        the last is 18: all earlier clean ones are written, since they are in order
    .late         19    21   │
    .dead            20    22│        19 to 22 went to other topics: none is left that could become clean

The gate writes each topic in order, and topics independently. So a late record with offset 21 proves nothing about a
clean one with offset 20; but if every offset after the last clean one is in another topic, none is outstanding.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path

from headrace.declare.streams.stream import Stream
from headrace.kafka.consumers.last_records import LastRecordsReader
from headrace.kafka.consumers.offset_range import read_offset_range
from headrace.kafka.headers import OFFSET_HEADER
from headrace.kafka.offsets import OffsetClient
from headrace.kafka.record import ConsumerRecord, Partition
from headrace.kafka.topics import fate_topics
from headrace.spark.checkpoints.checkpoint_files import committed_partition_offsets

# Larger gaps are not searched offset by offset: a gate that is so far behind commits its batches.
MAX_GAP_OFFSETS = 10_000


@dataclass
class ProcessedOffsets:
    """The raw offsets of one partition that the gate has processed: all before `next_offset`, and some after it."""

    next_offset: int = 0
    _out_of_order: set[int] = field(default_factory=set)

    def advance(self, offset: int) -> None:
        """Mark all offsets before one as processed."""
        if offset > self.next_offset:
            self.next_offset = offset
            self._out_of_order = {later for later in self._out_of_order if later >= offset}
            self._absorb_contiguous()

    def add(self, offset: int) -> None:
        """Mark one offset as processed."""
        if offset >= self.next_offset:
            self._out_of_order.add(offset)
            self._absorb_contiguous()

    def _absorb_contiguous(self) -> None:
        while self.next_offset in self._out_of_order:
            self._out_of_order.remove(self.next_offset)
            self.next_offset += 1


@dataclass(frozen=True)
class StalledRange:
    """Offsets of a partition that stayed unprocessed between two updates, and whether the raw topic was read."""

    begin: int
    end: int
    is_read: bool = False

    @property
    def offsets(self) -> range:
        return range(self.begin, self.end)


@dataclass
class GateProgressTracker:
    """Tracks the processed offsets of a stream's gate, from its checkpoint and its output records."""

    stream: Stream
    offsets: OffsetClient
    checkpoint: Path
    _processed: dict[int, ProcessedOffsets] = field(default_factory=dict)
    _scanned_until: dict[Partition, int] = field(default_factory=dict)
    _stalled_ranges: dict[Partition, StalledRange] = field(default_factory=dict)

    @property
    def topics(self) -> tuple[str, str]:
        """The gate's input topic and its clean output topic."""
        return self.stream.name, self.stream.clean

    def update_processed_offsets(self, end_offsets: Mapping[Partition, int]) -> dict[Partition, int]:
        """The first raw offset of each partition that may be unprocessed, given the partitions' end offsets."""
        for partition, offset in committed_partition_offsets(self.checkpoint).items():
            self._processed_in(partition.number).advance(offset)
        for record in self._last_clean_records.read_new_records():
            self._processed_in(record.partition).advance(_raw_offset(record) + 1)
        if gaps := self._small_gaps(end_offsets):
            for record in self._records_sent_elsewhere(gaps):
                self._processed_in(record.partition).add(_raw_offset(record))
            self._skip_recordless_offsets(end_offsets)
        return {
            Partition(self.stream.name, number): processed.next_offset for number, processed in self._processed.items()
        }

    def _small_gaps(self, end_offsets: Mapping[Partition, int]) -> dict[int, int]:
        """The number of possibly unprocessed offsets of each partition, if few enough to search for."""
        own_ends = {
            partition.number: end for partition, end in end_offsets.items() if partition.topic == self.stream.name
        }
        gaps = {number: end - self._processed_in(number).next_offset for number, end in own_ends.items()}
        return {number: gap for number, gap in gaps.items() if 0 < gap <= MAX_GAP_OFFSETS}

    def _records_sent_elsewhere(self, gaps: Mapping[int, int]) -> Iterator[ConsumerRecord]:
        """The gate's records in other topics than the clean one since the last update, at most the gap per topic."""
        other_topics = [topic for topic in fate_topics(self.stream) if topic != self.stream.clean]
        end_offsets = {
            partition: end
            for partition, end in self.offsets.topic_end_offsets(other_topics).items()
            if partition.number in gaps
        }
        start_offsets = {
            partition: max(
                begin, end_offsets[partition] - gaps[partition.number], self._scanned_until.get(partition, 0)
            )
            for partition, begin in self.offsets.start_offsets(end_offsets).items()
        }
        yield from read_offset_range(self.offsets.broker, start_offsets, end_offsets)
        self._scanned_until |= end_offsets

    def _skip_recordless_offsets(self, end_offsets: Mapping[Partition, int]) -> None:
        """Mark offsets without a record as processed: those of transaction markers and of compacted records.

        The raw topic is read once for a range that has not changed between two updates.
        """
        gaps = {
            Partition(self.stream.name, number): self._processed_in(number).next_offset
            for number in self._small_gaps(end_offsets)
        }
        previous_ranges, self._stalled_ranges = (
            self._stalled_ranges,
            {partition: StalledRange(begin, end_offsets[partition]) for partition, begin in gaps.items()},
        )
        for partition, stalled_range in self._stalled_ranges.items():
            previous_range = previous_ranges.get(partition)
            if previous_range is not None and previous_range.offsets == stalled_range.offsets:
                if not previous_range.is_read:
                    self._add_recordless_offsets(partition, stalled_range)
                self._stalled_ranges[partition] = replace(stalled_range, is_read=True)

    def _add_recordless_offsets(self, partition: Partition, stalled_range: StalledRange) -> None:
        records = read_offset_range(
            self.offsets.broker,
            {partition: stalled_range.begin},
            {partition: stalled_range.end},
            include_uncommitted=True,
        )
        record_offsets = {record.offset for record in records}
        for offset in stalled_range.offsets:
            if offset not in record_offsets:
                self._processed_in(partition.number).add(offset)

    def _processed_in(self, number: int) -> ProcessedOffsets:
        return self._processed.setdefault(number, ProcessedOffsets())

    @cached_property
    def _last_clean_records(self) -> LastRecordsReader:
        """A reader of the last clean record of each partition."""
        clean = self.stream.clean
        return LastRecordsReader(self.offsets.broker, clean, len(self.offsets.list_partitions([clean])))


def _raw_offset(record: ConsumerRecord) -> int:
    return OFFSET_HEADER.read_or(record, -1)
