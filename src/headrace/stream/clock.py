"""The clock of a query: a time of arrival before which everything its inputs have has been read by it.

    10:00  where do the raw topics end?  ──▶ 10:01 their gates are past that; where do the clean topics end?
           ──▶ 10:02 the query has committed that far as well: all that arrived before 10:00 is in ──▶ NAME.clock

A gate is past an offset once it has committed it, written a clean record of a later one, or put aside all that came
after its last clean record (gate_progress.py).
Nothing is guessed. While a gate or the query is behind, the clock goes as far as each partition has been read: the log
takes its records in the order in which they arrive. What another query writes is known only up to that one's own clock,
whatever the time is.
"""

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from headrace.log.between import records_between
from headrace.log.ledger import ARRIVAL
from headrace.log.offsets import Offsets
from headrace.log.records import Partition, Record
from headrace.log.tail import Tail
from headrace.stream.gate_progress import GateWatch

Ends = Mapping[Partition, int]


class Moment(NamedTuple):
    """A time, and where topics ended then."""

    at_us: int
    ends: Ends


def now_us() -> int:
    """The time, in the whole milliseconds in which the log tells it: what comes from now on is not before it."""
    return time.time_ns() // 1_000_000 * 1000


@dataclass
class Clock:
    """Moments on their way: through the gates, then through the query, which may read topics without a gate as well."""

    gates: Sequence[GateWatch]
    offsets: Offsets
    ungated: Sequence[str] = ()
    known_until_us: Callable[[], int] = now_us  # up to when the raw topics have all that is known
    in_order: bool = False  # whether each partition has its records as they arrived: not what another query writes
    _at_gates: list[Moment] = field(default_factory=list)
    _at_query: list[Moment] = field(default_factory=list)

    def look(self, read: Ends) -> int | None:
        """The newest time that is through both, given how far the query has committed; None where none is news."""
        known_us = self.known_until_us()  # first: what comes between the two questions is among the ends
        raw_ends = self._ends([gate.stream.name for gate in self.gates])
        self._at_gates.append(Moment(known_us, raw_ends))
        reached = dict(item for gate in self.gates for item in gate.reached(raw_ends).items())
        first = self._at_gates[0]
        gated, self._at_gates = _passed(self._at_gates, reached)
        if gated is not None:
            ends = self._ends([*(gate.stream.clean for gate in self.gates), *self.ungated])
            self._at_query.append(Moment(gated.at_us, ends))
        done, self._at_query = _passed(self._at_query, read)
        if done is None and self.in_order:
            return self._behind_us(first, reached, read)
        return None if done is None else done.at_us

    def _behind_us(self, first: Moment, reached: Ends, read: Ends) -> int | None:
        """How far all partitions have been read: up to a moment, those with nothing more of it; to a record, others."""
        clean = self._ends([gate.stream.clean for gate in self.gates])
        times = []
        for gate in self.gates:
            numbers = [place.number for place in (*first.ends, *clean) if place.topic in gate.topics]
            for number in set(numbers):
                raw, cleaned = (Partition(topic, number) for topic in gate.topics)
                is_through = reached.get(raw, 0) >= first.ends.get(raw, 0)
                has_all = is_through and read.get(cleaned, 0) >= clean.get(cleaned, 0)
                times.append(first.at_us if has_all else self._arrival_us(cleaned, read.get(cleaned, 0)))
        return min(times, default=None)

    def _arrival_us(self, partition: Partition, end: int) -> int:
        """When the last record before an offset had arrived; 0 where that is not known."""
        if end == 0:
            return 0
        records = records_between(self.offsets.broker, {partition: end - 1}, {partition: end})
        arrivals = [int(record.header(ARRIVAL) or 0) for record in records]
        return arrivals[0] // 1000 * 1000 if arrivals else 0

    def _ends(self, topics: Sequence[str]) -> Ends:
        return ends_of(self.offsets, topics)


@dataclass
class RecordedClock:
    """Where records tell the time and move the clock themselves: how far it may go once no more of them come.

    newest arrival − margin ├──── what is not known to be complete while records come ────┤ newest arrival
    """

    topics: Sequence[str]
    offsets: Offsets

    def look(self, read: Ends) -> int | None:
        """The newest arrival, if all there is has been read; None before."""
        if not _is_reached(ends_of(self.offsets, self.topics), read):
            return None
        lasts = [record.header(ARRIVAL) for topic in self.topics for record in _lasts(self.offsets, topic)]
        return max((int(arrival) // 1000 * 1000 for arrival in lasts if arrival is not None), default=None)


def ends_of(offsets: Offsets, topics: Sequence[str]) -> Ends:
    """Where the partitions of topics end that have anything."""
    begins = offsets.begin(topics)
    return {partition: end for partition, end in offsets.end(topics).items() if end > begins[partition]}


def _lasts(offsets: Offsets, topic: str) -> list[Record]:
    """The last record of each partition."""
    return list(Tail(offsets.broker, topic, len(offsets.partitions([topic]))).news())


def _passed(moments: list[Moment], reached: Ends) -> tuple[Moment | None, list[Moment]]:
    """The newest moment whose ends have all been reached, and those after it."""
    for place in reversed(range(len(moments))):
        if _is_reached(moments[place].ends, reached):
            return moments[place], moments[place + 1 :]
    return None, moments


def _is_reached(ends: Ends, reached: Ends) -> bool:
    return all(reached.get(partition, 0) >= end for partition, end in ends.items())
