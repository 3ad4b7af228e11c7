"""Matches by their definition in docs/patterns.md: tries all choices of events, and returns the matches.

It shares nothing with the automaton: no state, no order of evaluation, not even the conditions' language.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from math import inf
from typing import NamedTuple


class Event(NamedTuple):
    """An event: when, a letter and a number."""

    time: int
    letter: str
    number: int


@dataclass(frozen=True)
class Condition:
    """One of some letters; and, where that is said, a number greater than that of an event a step took before."""

    letters: str
    which: str | None = None
    step: int = 0


@dataclass(frozen=True)
class Wanted:
    """A step: see headrace.declare.operations.pattern_sequence.Step."""

    condition: Condition
    near: str = "then"
    least: int = 1
    most: float = 1
    repeat: str = "then"
    optional: bool = False
    reluctant: bool = False


@dataclass(frozen=True)
class Unwanted:
    """What must not come before the step of that number, after what was taken before."""

    condition: Condition
    before: int


@dataclass(frozen=True)
class Question:
    """A whole pattern."""

    steps: tuple[Wanted, ...]
    nevers: tuple[Unwanted, ...]
    within: int


Chain = tuple[tuple[int, int], ...]  # events, by number, each with the step that takes it
Position = tuple[int, float]  # a time, and the number of an event; infinite after all events of that time


class Definition:
    """The matches and the time-outs of a question among some events, which are in order."""

    def __init__(self, question: Question, events: list[Event]) -> None:
        self.question, self.events = question, events
        self.chains = [chain for first in range(len(events)) for chain in self._chains_from(first)]

    @cached_property
    def all_matches(self) -> list[Chain]:
        """In the order of their ends, their first events, and what is preferred."""
        return sorted(filter(self._is_match, self.chains), key=lambda chain: (self.end(chain), self._order(chain)))

    def matches(self, after: str) -> list[Chain]:
        """The matches that are emitted."""
        if after == "no_skip":
            return self.all_matches
        told: list[Chain] = []
        for chain in self.all_matches:
            if after == "skip_to_next" and all(chain[0] != other[0] for other in told):
                told.append(chain)
            if after == "skip_past_last" and (not told or self.begin(chain) > self.end(told[-1])):
                told.append(chain)
        return told

    @cached_property
    def open_chains(self) -> list[Chain]:
        """Of each first event the furthest that could take another after its deadline, had it come before."""
        furthest: dict[int, Chain] = {}
        for chain in sorted(filter(self._is_open, self.chains), key=lambda one: (-one[-1][1], self._order(one))):
            furthest.setdefault(chain[0][0], chain)
        return [furthest[first] for first in sorted(furthest)]

    def timeouts(self, after: str) -> list[Chain]:
        """Those of first events that came to nothing."""
        told = self.matches(after)
        return [one for one in self.open_chains if not any(self._is_settled(one[0][0], other, after) for other in told)]

    def begin(self, chain: Chain) -> Position:
        return self.events[chain[0][0]].time, chain[0][0]

    def deadline(self, chain: Chain) -> Position:
        return self.events[chain[0][0]].time + self.question.within, inf

    def end(self, chain: Chain) -> Position:
        last = chain[-1][0]
        return self.deadline(chain) if self._nevers(chain[-1][1], self._end) else (self.events[last].time, last)

    @property
    def _end(self) -> int:
        return len(self.question.steps)

    def _is_settled(self, first: int, told: Chain, after: str) -> bool:
        if after == "skip_past_last":
            return (self.events[first].time, first) <= self.end(told) <= self.deadline(((first, 0),))
        return told[0][0] == first

    def _chains_from(self, first: int) -> Iterator[Chain]:
        if self._holds(self.question.steps[0].condition, (), first):
            yield from self._longer(((first, 0),))

    def _longer(self, chain: Chain) -> Iterator[Chain]:
        """A chain and whatever it may become, whether or not that can be a match."""
        yield chain
        for event in range(chain[-1][0] + 1, len(self.events)):
            for step in range(chain[-1][1], self._end):
                longer = (*chain, (event, step))
                if self._is_linked(chain, event, step) and self._is_begun(longer):
                    yield from self._longer(longer)

    def _is_linked(self, chain: Chain, event: int, step: int) -> bool:
        """Whether an event can be the next that is taken, by that step."""
        (last, by), wanted = chain[-1], self.question.steps[step]
        near, between = wanted.repeat if step == by else wanted.near, range(last + 1, event)
        if not self._holds(wanted.condition, chain, event) or (near == "next" and between):
            return False
        if near == "then" and any(self._holds(wanted.condition, chain, one) for one in between):
            return False
        return self._is_quiet(chain, step, event)

    def _is_quiet(self, chain: Chain, step: int, until: int) -> bool:
        """Whether nothing comes before an event that must not come before a step."""
        between = range(chain[-1][0] + 1, until)
        return not any(
            self._holds(never.condition, chain, one) for never in self._nevers(chain[-1][1], step) for one in between
        )

    def _nevers(self, by: int, step: int) -> list[Unwanted]:
        return [never for never in self.question.nevers if by < never.before <= step]

    def _holds(self, condition: Condition, chain: Chain, event: int) -> bool:
        if self.events[event].letter not in condition.letters:
            return False
        if condition.which is None:
            return True
        taken = [self.events[one].number for one, step in chain if step == condition.step]
        return bool(taken) and self.events[event].number > taken[0 if condition.which == "first" else -1]

    def _counts(self, chain: Chain) -> list[int]:
        return [sum(step == number for _, step in chain) for number in range(self._end)]

    def _is_begun(self, chain: Chain) -> bool:
        """In time, with what every step before the last needs, and no more than the last may have."""
        last, counts = chain[-1][1], self._counts(chain)
        in_time = self.events[chain[-1][0]].time <= self.deadline(chain)[0]
        return (
            in_time
            and all(map(self._is_enough, range(last), counts))
            and counts[last] <= self.question.steps[last].most
        )

    def _is_enough(self, step: int, count: int) -> bool:
        wanted = self.question.steps[step]
        return wanted.least <= count <= wanted.most or (count == 0 and wanted.optional)

    def _after_deadline(self, chain: Chain) -> int:
        """The number of the first event after the deadline."""
        return sum(event.time <= self.deadline(chain)[0] for event in self.events)

    def _is_match(self, chain: Chain) -> bool:
        enough = all(map(self._is_enough, range(self._end), self._counts(chain)))
        return enough and self._is_quiet(chain, self._end, self._after_deadline(chain))

    def _is_open(self, chain: Chain) -> bool:
        """Whether an event after the deadline could be taken next, had it come in time."""
        last, counts, steps = chain[-1][1], self._counts(chain), self.question.steps
        targets = [last] if counts[last] < steps[last].most else []
        if self._is_enough(last, counts[last]):
            required = (step for step in range(last + 1, self._end) if not steps[step].optional)
            targets += range(last + 1, min(next(required, self._end - 1) + 1, self._end))
        return any(self._may_come(chain, step) for step in targets)

    def _may_come(self, chain: Chain, step: int) -> bool:
        wanted, rest = self.question.steps[step], range(chain[-1][0] + 1, self._after_deadline(chain))
        near = wanted.repeat if step == chain[-1][1] else wanted.near
        if near == "next" and rest:
            return False
        if near == "then" and any(self._holds(wanted.condition, chain, one) for one in rest):
            return False
        return self._is_quiet(chain, step, self._after_deadline(chain))

    def _order(self, chain: Chain) -> tuple[int, list[int], Chain]:
        """The earlier first event; then of each step in turn more, or fewer if reluctant; then earlier events."""
        steps = self.question.steps
        signed = [count if step.reluctant else -count for step, count in zip(steps, self._counts(chain), strict=True)]
        return chain[0][0], signed, chain
