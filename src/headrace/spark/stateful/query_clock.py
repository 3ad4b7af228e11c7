"""The clock of a query: an arrival time before which it has read everything from its inputs.

    10:00  where do the raw topics end?  ──▶ 10:01 their gates are past that; where do the clean topics end?
        ──▶ 10:02 the query has committed that as well: everything that arrived before 10:00 is in ──▶ NAME.clock

A gate is past an offset once it has committed it, written a clean record of a later one, or rejected all records
after its last clean one (gate_progress.py).
Nothing is guessed. While a gate or the query is behind, the clock advances as far as each partition has been read,
since the log has records in the order of arrival. The output of another query is complete only up to that query's own
clock, whatever the current time is.
"""

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from headrace.kafka.consumers.last_records import LastRecordsReader
from headrace.kafka.consumers.offset_range import read_offset_range
from headrace.kafka.headers import ARRIVAL_HEADER
from headrace.kafka.offsets import OffsetClient
from headrace.kafka.record import ConsumerRecord, Partition
from headrace.spark.gate.gate_progress import GateProgressTracker

EndOffsets = Mapping[Partition, int]


class EndOffsetsSnapshot(NamedTuple):
    """A time, and the end offsets at that time."""

    at_us: int
    end_offsets: EndOffsets


def now_us() -> int:
    """The current time in whole milliseconds, the log's resolution: no later record has an earlier time."""
    return time.time_ns() // 1_000_000 * 1000


@dataclass
class QueryClock:
    """Snapshots of end offsets that wait for the gates, then for the query, which may also read ungated topics."""

    gates: Sequence[GateProgressTracker]
    offsets: OffsetClient
    ungated_topics: Sequence[str] = ()
    complete_until_us: Callable[[], int] = now_us  # the time up to which the raw topics are complete
    is_in_arrival_order: bool = (
        False  # whether each partition is in order of arrival: the output of another query is not
    )
    _pending_at_gates: list[EndOffsetsSnapshot] = field(default_factory=list)
    _pending_at_query: list[EndOffsetsSnapshot] = field(default_factory=list)

    def advance(self, committed_offsets: EndOffsets) -> int | None:
        """The newest time that gates and query have both reached; None where there is no newer one."""
        complete_us = self.complete_until_us()  # read first, so that the end offsets include later records
        raw_end_offsets = self._end_offsets([gate.stream.name for gate in self.gates])
        self._pending_at_gates.append(EndOffsetsSnapshot(complete_us, raw_end_offsets))
        processed_offsets = dict(
            item for gate in self.gates for item in gate.update_processed_offsets(raw_end_offsets).items()
        )
        oldest_snapshot = self._pending_at_gates[0]
        gates_snapshot, self._pending_at_gates = _split_at_reached(self._pending_at_gates, processed_offsets)
        if gates_snapshot is not None:
            end_offsets = self._end_offsets([*(gate.stream.clean for gate in self.gates), *self.ungated_topics])
            self._pending_at_query.append(EndOffsetsSnapshot(gates_snapshot.at_us, end_offsets))
        query_snapshot, self._pending_at_query = _split_at_reached(self._pending_at_query, committed_offsets)
        if query_snapshot is None and self.is_in_arrival_order:
            return self._read_until_us(oldest_snapshot, processed_offsets, committed_offsets)
        return None if query_snapshot is None else query_snapshot.at_us

    def _read_until_us(
        self, oldest_snapshot: EndOffsetsSnapshot, processed_offsets: EndOffsets, committed_offsets: EndOffsets
    ) -> int | None:
        """The time up to which all partitions are read: the snapshot's for complete ones, else the last record's."""
        clean_end_offsets = self._end_offsets([gate.stream.clean for gate in self.gates])
        times_us = []
        for gate in self.gates:
            numbers = [
                partition.number
                for partition in (*oldest_snapshot.end_offsets, *clean_end_offsets)
                if partition.topic in gate.topics
            ]
            for number in set(numbers):
                raw_partition, clean_partition = (Partition(topic, number) for topic in gate.topics)
                is_processed = processed_offsets.get(raw_partition, 0) >= oldest_snapshot.end_offsets.get(
                    raw_partition, 0
                )
                is_read = is_processed and committed_offsets.get(clean_partition, 0) >= clean_end_offsets.get(
                    clean_partition, 0
                )
                times_us.append(
                    oldest_snapshot.at_us
                    if is_read
                    else self._last_arrival_us(clean_partition, committed_offsets.get(clean_partition, 0))
                )
        return min(times_us, default=None)

    def _last_arrival_us(self, partition: Partition, end_offset: int) -> int:
        """The arrival time of the last record before an offset; 0 where it is unknown."""
        if end_offset == 0:
            return 0
        records = read_offset_range(self.offsets.broker, {partition: end_offset - 1}, {partition: end_offset})
        arrivals = [ARRIVAL_HEADER.read_or(record, 0) for record in records]
        return arrivals[0] // 1000 * 1000 if arrivals else 0

    def _end_offsets(self, topics: Sequence[str]) -> EndOffsets:
        return nonempty_end_offsets(self.offsets, topics)


@dataclass
class RecordedClock:
    """The clock of recorded history, which records advance: how far it may go once no more of them arrive.

    newest arrival − margin ├──── not known to be complete while records arrive ────────────┤ newest arrival
    """

    topics: Sequence[str]
    offsets: OffsetClient

    def advance(self, committed_offsets: EndOffsets) -> int | None:
        """The newest arrival, if everything has been read; None before."""
        if not _are_reached(nonempty_end_offsets(self.offsets, self.topics), committed_offsets):
            return None
        arrivals = [
            ARRIVAL_HEADER.read(record) for topic in self.topics for record in _last_records(self.offsets, topic)
        ]
        return max((arrival // 1000 * 1000 for arrival in arrivals if arrival is not None), default=None)


def nonempty_end_offsets(offsets: OffsetClient, topics: Sequence[str]) -> EndOffsets:
    """The end offsets of non-empty partitions."""
    start_offsets = offsets.topic_start_offsets(topics)
    return {
        partition: end for partition, end in offsets.topic_end_offsets(topics).items() if end > start_offsets[partition]
    }


def _last_records(offsets: OffsetClient, topic: str) -> list[ConsumerRecord]:
    """The last record of each partition."""
    return list(LastRecordsReader(offsets.broker, topic, len(offsets.list_partitions([topic]))).read_new_records())


def _split_at_reached(
    snapshots: list[EndOffsetsSnapshot], reached_offsets: EndOffsets
) -> tuple[EndOffsetsSnapshot | None, list[EndOffsetsSnapshot]]:
    """The newest snapshot whose end offsets have all been reached, and those after it."""
    for index in reversed(range(len(snapshots))):
        if _are_reached(snapshots[index].end_offsets, reached_offsets):
            return snapshots[index], snapshots[index + 1 :]
    return None, snapshots


def _are_reached(end_offsets: EndOffsets, reached_offsets: EndOffsets) -> bool:
    return all(reached_offsets.get(partition, 0) >= end for partition, end in end_offsets.items())
