"""How far a follower has come, and whether it has seen what was there when it began."""

from collections.abc import Iterable, Mapping

from headrace.log.records import Partition, Record


class Positions:
    """Positions of partitions against the ends they had when they were taken on.

    begin ──────────────▶ position ────▶ end at the start ─ ─ ─▶ end now
                                         └ caught up from here on
    """

    def __init__(self) -> None:
        self._next: dict[Partition, int] = {}
        self._ahead: dict[Partition, int] = {}
        self._mine: set[Partition] = set()
        self._began = False

    @property
    def caught_up(self) -> bool:
        """Whether everything that was there at the start has been handled."""
        return self._began and not self._ahead

    @property
    def next(self) -> dict[Partition, int]:
        """The next offset to handle, per partition; copying a dict is one step to other threads."""
        return dict(self._next)

    @property
    def remaining(self) -> int:
        """How many offsets are left of those that were there at the start."""
        position, ahead = self.next, dict(self._ahead)
        return sum(max(0, end - position.get(partition, end)) for partition, end in ahead.items())

    def take_on(self, begins: Mapping[Partition, int], ends: Mapping[Partition, int]) -> None:
        """Partitions this follower now reads; empty ones are already caught up."""
        self._mine.update(ends)
        self._next.update(begins)
        self._ahead.update({at: end for at, end in ends.items() if begins.get(at, 0) < end})
        self._began = True

    def give_up(self, partitions: Iterable[Partition]) -> None:
        """Partitions another follower now reads."""
        for partition in partitions:
            self._mine.discard(partition)
            self._next.pop(partition, None)
            self._ahead.pop(partition, None)

    def handled(self, records: Iterable[Record]) -> dict[Partition, int]:
        """Move behind these records; gives the new positions of their partitions, but for those given up meanwhile."""
        return self.reach({Partition(record.topic, record.partition): record.offset + 1 for record in records})

    def reach(self, reached: Mapping[Partition, int]) -> dict[Partition, int]:
        """Move to these positions; gives those that are not of partitions given up meanwhile."""
        mine = {partition: offset for partition, offset in reached.items() if partition in self._mine}
        for partition, offset in mine.items():
            self._reach(partition, offset)
        return mine

    def at_end(self, partition: Partition, offset: int) -> None:
        """The log ends here for now: markers and compacted records before it are never delivered."""
        self._next[partition] = offset
        self._ahead.pop(partition, None)

    def _reach(self, partition: Partition, offset: int) -> None:
        self._next[partition] = offset
        if self._ahead.get(partition, offset + 1) <= offset:
            del self._ahead[partition]
