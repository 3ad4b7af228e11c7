"""The position of a consumer, and whether it has read what was there when it started."""

from collections.abc import Iterable, Mapping

from headrace.kafka.record import ConsumerRecord, Partition


class CatchUpState:
    """Positions of partitions, and the end offsets at their assignment.

    start ──────────────▶ position ────▶ end at the start ─ ─ ─▶ end now
                                                └ caught up from here on
    """

    def __init__(self) -> None:
        self._next_offsets: dict[Partition, int] = {}
        self._catch_up_ends: dict[Partition, int] = {}
        self._assigned_partitions: set[Partition] = set()
        self._has_begun = False

    @property
    def is_caught_up(self) -> bool:
        """Whether everything that was there at the start has been processed."""
        return self._has_begun and not self._catch_up_ends

    @property
    def next_offsets(self) -> dict[Partition, int]:
        """The next offset of each partition; copying a dict is atomic for other threads."""
        return dict(self._next_offsets)

    @property
    def remaining_count(self) -> int:
        """How many of the offsets that were there at the start are left."""
        next_offsets, catch_up_ends = self.next_offsets, dict(self._catch_up_ends)
        return sum(max(0, end - next_offsets.get(partition, end)) for partition, end in catch_up_ends.items())

    def add_partitions(self, start_offsets: Mapping[Partition, int], end_offsets: Mapping[Partition, int]) -> None:
        """Add assigned partitions; empty ones are already caught up."""
        self._assigned_partitions.update(end_offsets)
        self._next_offsets.update(start_offsets)
        self._catch_up_ends.update(
            {partition: end for partition, end in end_offsets.items() if start_offsets.get(partition, 0) < end}
        )
        self._has_begun = True

    def remove_partitions(self, partitions: Iterable[Partition]) -> None:
        """Remove revoked partitions."""
        for partition in partitions:
            self._assigned_partitions.discard(partition)
            self._next_offsets.pop(partition, None)
            self._catch_up_ends.pop(partition, None)

    def advance_past(self, records: Iterable[ConsumerRecord]) -> dict[Partition, int]:
        """Advance past these records; returns the new positions, without revoked partitions."""
        return self.advance_to({Partition(record.topic, record.partition): record.offset + 1 for record in records})

    def advance_to(self, offsets: Mapping[Partition, int]) -> dict[Partition, int]:
        """Advance to these positions; returns those of assigned partitions."""
        own_offsets = {
            partition: offset for partition, offset in offsets.items() if partition in self._assigned_partitions
        }
        for partition, offset in own_offsets.items():
            self._advance(partition, offset)
        return own_offsets

    def mark_end(self, partition: Partition, offset: int) -> None:
        """Record the current end: transaction markers and compacted records before it are never delivered."""
        self._next_offsets[partition] = offset
        self._catch_up_ends.pop(partition, None)

    def _advance(self, partition: Partition, offset: int) -> None:
        self._next_offsets[partition] = offset
        if self._catch_up_ends.get(partition, offset + 1) <= offset:
            del self._catch_up_ends[partition]
