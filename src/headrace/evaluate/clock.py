"""The clock of a model's outcomes: a time of arrival up to which every label and prediction has been read.

    10:00  where does chargebacks end?  ──▶ 10:01 the gate is past that; where do .clean and .predictions end?
           ──▶ 10:02 the join has committed that far as well: every label that arrived by 10:00 is in ──▶ fraud.clock

The gate is past an offset once it has committed it, or written a clean label of a later one: it writes in order.
Nothing is guessed: while the gate or the join is behind, the clock stands. Only predictions that are made late are
waited for by the clock alone: as long as `within`, an hour at most.
"""

import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import NamedTuple

from headrace.declare.durations import UNITS_US
from headrace.declare.model import Model
from headrace.declare.stream import Stream
from headrace.log.ledger import OFFSET
from headrace.log.offsets import Offsets
from headrace.log.tail import Tail
from headrace.stream.checkpoints import committed_offsets

LONGEST_PATIENCE_US = UNITS_US["h"]
Ends = dict[str, dict[int, int]]


def patience_us(within_us: int) -> int:
    """How long a prediction may take to be made."""
    return min(within_us, LONGEST_PATIENCE_US)


class Moment(NamedTuple):
    """A time, and where topics ended then."""

    at_us: int
    ends: Ends


@dataclass
class Clock:
    """Moments on their way: through the gate, then through the join."""

    model: Model
    labels: Stream
    offsets: Offsets
    gate: Path
    _at_gate: list[Moment] = field(default_factory=list)
    _at_join: list[Moment] = field(default_factory=list)
    _written: dict[int, int] = field(default_factory=dict)

    def look(self, joined: Ends) -> int | None:
        """The newest time that is through both, given how far the join has committed; None where none is news."""
        self._at_gate.append(Moment(time.time_ns() // 1000, self._ends(self.labels.name)))
        gated, self._at_gate = _passed(self._at_gate, {self.labels.name: self._through_gate()})
        if gated is not None:
            ends = self._ends(self.labels.clean, self.model.predictions)
            self._at_join.append(Moment(gated.at_us, ends))
        done, self._at_join = _passed(self._at_join, joined)
        return None if done is None else done.at_us

    def _through_gate(self) -> dict[int, int]:
        """The first raw offset of each partition that the gate may still have before it."""
        for record in self._tail.news():
            offset = int(record.header(OFFSET) or -1)
            self._written[record.partition] = max(offset + 1, self._written.get(record.partition, 0))
        committed = committed_offsets(self.gate)
        numbers = committed.keys() | self._written.keys()
        return {number: max(committed.get(number, 0), self._written.get(number, 0)) for number in numbers}

    @cached_property
    def _tail(self) -> Tail:
        """The last clean label of each partition."""
        clean = self.labels.clean
        return Tail(self.offsets.broker, clean, len(self.offsets.partitions([clean])))

    def _ends(self, *topics: str) -> Ends:
        ends: Ends = {topic: {} for topic in topics}
        for partition, end in self.offsets.end(topics).items():
            ends[partition.topic][partition.number] = end
        return ends


def _passed(moments: list[Moment], reached: Mapping[str, Mapping[int, int]]) -> tuple[Moment | None, list[Moment]]:
    """The newest moment whose ends have all been reached, and those after it."""
    for place in reversed(range(len(moments))):
        if _is_reached(moments[place].ends, reached):
            return moments[place], moments[place + 1 :]
    return None, moments


def _is_reached(ends: Ends, reached: Mapping[str, Mapping[int, int]]) -> bool:
    return all(
        reached.get(topic, {}).get(number, 0) >= end
        for topic, of_topic in ends.items()
        for number, end in of_topic.items()
    )
