"""Patterns as an operator: events wait until none before them can come, are matched in their order, and are told.

arrival     ●2   ●1       ●3              lateness ≤ patience, or they are late
clock       ──────────┼──────────┼──────▶
matched               1          2        each once the clock is past its time and the patience: in order of
                                          event time, and of place where times are the same
"""

from collections.abc import Iterator
from dataclasses import dataclass, field
from hashlib import blake2b
from heapq import heappop, heappush
from typing import Any

import orjson

from headrace.declare.pattern_outputs import ENDED_AT, STARTED_AT, late_names
from headrace.declare.sequence import Sequence
from headrace.operators.matching import Ended, Matching
from headrace.operators.operator import Arrived, Key, Made, Operator
from headrace.operators.runs import pack, unpack
from headrace.operators.taking import Run, Seen, Taken, events_of


@dataclass
class Kept:
    """Of a key: the events that wait for their turn, as a heap, and the matches under way."""

    pending: list[Seen] = field(default_factory=list)
    runs: list[Run] = field(default_factory=list)


class Patterns(Operator[Kept]):
    """Looks for a sequence in the events of each key."""

    def __init__(self, sequence: Sequence) -> None:
        self._sequence, self._matching = sequence, Matching(sequence)
        self._late_names = late_names(sequence)

    def begin(self) -> Kept:
        return Kept()

    def take(self, key: Key, kept: Kept, event: Arrived) -> Iterator[Made]:
        if event.lateness_us > self._sequence.patience_us:
            yield self._late(key, event)
        elif self._matching.may_matter(seen := self._matching.taker.seen(event)):
            heappush(kept.pending, seen)

    def due_us(self, kept: Kept) -> int | None:
        times = [one.time_us for one in kept.pending[:1]]
        times += [self._matching.deadline_us(run.start) for run in kept.runs[:1]]
        return min(times) + self._sequence.patience_us + 1 if times else None

    def wake(self, key: Key, kept: Kept, at_us: int) -> Iterator[Made]:
        """What happened at one time is complete: its events come first, and then what ends with it."""
        time_us = at_us - self._sequence.patience_us - 1
        while kept.pending and kept.pending[0].time_us <= time_us:
            ended = self._matching.feed(kept.runs, heappop(kept.pending))
            yield from (self._told(key, one, at_us) for one in ended)
        for one in self._matching.expire(kept.runs, time_us):
            yield self._told(key, one, at_us)

    def packed(self, kept: Kept) -> bytes:
        return orjson.dumps(pack(kept.pending, kept.runs))

    def unpacked(self, packed: bytes) -> Kept:
        return Kept(*unpack(orjson.loads(packed), self._matching))

    def _late(self, key: Key, event: Arrived) -> Made:
        values = {name: event.values[column] for column, name in self._late_names.items()}
        return Made("late", self._id(key, "late", [event.id]), event.time_us, event.arrival_us, values)

    def _told(self, key: Key, ended: Ended, known_us: int) -> Made:
        taken = events_of(ended.run.taken)
        values = self._values(taken, ended.time_us)
        steps = [[one.step, one.event.id] for one in taken]
        if ended.why == "match":
            return Made("out", self._id(key, "match", steps), ended.time_us, known_us, values)
        how_far = {"reached": self._sequence.steps[taken[-1].step].name, "why": ended.why}
        return Made("timeouts", self._id(key, ended.why, steps), ended.time_us, known_us, values | how_far)

    def _values(self, taken: list[Taken], time_us: int) -> dict[str, Any]:
        values = {"pattern": self._sequence.title, STARTED_AT: taken[0].event.time_us, ENDED_AT: time_us}
        values["events"] = len(taken)
        for number, step in enumerate(self._sequence.steps):
            values |= self._of_step(step.name, step.keep, [one.event for one in taken if one.step == number])
        return values

    def _of_step(self, name: str, keep: tuple[str, ...], events: list[Seen]) -> dict[str, Any]:
        """How many events a step took, the first and the last, and what is kept of the last."""
        first, last = (events[0].id, events[-1].id) if events else (None, None)
        told: dict[str, Any] = {f"{name}_count": len(events), f"{name}_first_id": first, f"{name}_last_id": last}
        for column in keep:
            place = self._matching.taker.columns.index(column)
            told[f"{name}_{column}"] = events[-1].values[place] if events else None
        return told

    def _id(self, key: Key, what: str, taken: list[Any]) -> str:
        """The same events make the same id."""
        said = orjson.dumps([self._sequence.name, key, what, taken])
        return blake2b(said, digest_size=12).hexdigest()
