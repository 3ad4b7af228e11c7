"""How far the gate of a stream has judged its raw records, proven record by record.

    raw     17 18 19 20 21 22│        raw end: 23
    .clean  17 18 ·  ·  ·  · │        the last is 18: all clean ones before it are written, for they are in order
    .late         19    21   │
    .dead            20    22│        19 to 22 went elsewhere, each of them: none is left that could become clean

The gate writes each topic in order and topics beside each other. So a late record with offset 21 proves nothing of a
clean one with offset 20; that each offset after the last clean one is found elsewhere proves that none is outstanding.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path

from headrace.declare.stream import Stream
from headrace.log.between import records_between
from headrace.log.ledger import OFFSET
from headrace.log.offsets import Offsets
from headrace.log.records import Partition, Record
from headrace.log.tail import Tail
from headrace.log.topics import fates_of
from headrace.stream.checkpoints import committed_places

# More offsets than this are not looked for one by one: a gate that is so far behind commits its batches.
MOST_OFFSETS = 10_000


@dataclass
class JudgedOffsets:
    """The raw offsets of one partition that the gate has judged: all before `next`, and some after it."""

    next: int = 0
    _after: set[int] = field(default_factory=set)

    def advance(self, offset: int) -> None:
        """All before an offset are judged."""
        if offset > self.next:
            self.next = offset
            self._after = {one for one in self._after if one >= offset}
            self._join()

    def add(self, offset: int) -> None:
        """One offset is judged."""
        if offset >= self.next:
            self._after.add(offset)
            self._join()

    def _join(self) -> None:
        while self.next in self._after:
            self._after.remove(self.next)
            self.next += 1


@dataclass(frozen=True)
class Stall:
    """Offsets of a partition that stayed unjudged between two looks, and whether they were read from the raw topic."""

    begin: int
    end: int
    is_read: bool = False

    @property
    def range(self) -> range:
        return range(self.begin, self.end)


@dataclass
class GateWatch:
    """How far the gate of a stream has come, by its checkpoint and by what it has written."""

    stream: Stream
    offsets: Offsets
    checkpoint: Path
    _judged: dict[int, JudgedOffsets] = field(default_factory=dict)
    _read: dict[Partition, int] = field(default_factory=dict)
    _stalled: dict[Partition, Stall] = field(default_factory=dict)

    @property
    def topics(self) -> tuple[str, str]:
        """What it reads, and what the query reads of it."""
        return self.stream.name, self.stream.clean

    def reached(self, ends: Mapping[Partition, int]) -> dict[Partition, int]:
        """The first raw offset of each partition that the gate may still have before it, given where those end."""
        for place, offset in committed_places(self.checkpoint).items():
            self._at(place.number).advance(offset)
        for record in self._last_clean.news():
            self._at(record.partition).advance(_raw_offset(record) + 1)
        if gaps := self._gaps(ends):
            for record in self._put_aside(gaps):
                self._at(record.partition).add(_raw_offset(record))
            self._pass_over_markers(ends)
        return {Partition(self.stream.name, number): judged.next for number, judged in self._judged.items()}

    def _gaps(self, ends: Mapping[Partition, int]) -> dict[int, int]:
        """How many offsets of each partition are not known to be judged, where those are few enough to look for."""
        own = {place.number: end for place, end in ends.items() if place.topic == self.stream.name}
        gaps = {number: end - self._at(number).next for number, end in own.items()}
        return {number: gap for number, gap in gaps.items() if 0 < gap <= MOST_OFFSETS}

    def _put_aside(self, gaps: Mapping[int, int]) -> Iterator[Record]:
        """What the gate wrote elsewhere than to the clean topic since the last look: of each topic at most the gap."""
        elsewhere = [topic for topic in fates_of(self.stream) if topic != self.stream.clean]
        ends = {place: end for place, end in self.offsets.end(elsewhere).items() if place.number in gaps}
        begins = {
            place: max(begin, ends[place] - gaps[place.number], self._read.get(place, 0))
            for place, begin in self.offsets.begin_of(ends).items()
        }
        yield from records_between(self.offsets.broker, begins, ends)
        self._read |= ends

    def _pass_over_markers(self, ends: Mapping[Partition, int]) -> None:
        """Offsets without a record are judged: those of a transaction's markers, and of what compaction took.

        They are looked for once, where nothing has moved between two looks.
        """
        gaps = {Partition(self.stream.name, number): self._at(number).next for number in self._gaps(ends)}
        before, self._stalled = self._stalled, {place: Stall(begin, ends[place]) for place, begin in gaps.items()}
        for place, stall in self._stalled.items():
            known = before.get(place)
            if known is not None and known.range == stall.range:
                if not known.is_read:
                    self._add_without_record(place, stall)
                self._stalled[place] = replace(stall, is_read=True)

    def _add_without_record(self, place: Partition, stall: Stall) -> None:
        found = records_between(self.offsets.broker, {place: stall.begin}, {place: stall.end}, uncommitted=True)
        there = {record.offset for record in found}
        for offset in stall.range:
            if offset not in there:
                self._at(place.number).add(offset)

    def _at(self, number: int) -> JudgedOffsets:
        return self._judged.setdefault(number, JudgedOffsets())

    @cached_property
    def _last_clean(self) -> Tail:
        """The last clean record of each partition."""
        clean = self.stream.clean
        return Tail(self.offsets.broker, clean, len(self.offsets.partitions([clean])))


def _raw_offset(record: Record) -> int:
    return int(record.header(OFFSET) or -1)
