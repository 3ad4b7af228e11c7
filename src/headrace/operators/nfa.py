"""The automaton of a sequence: where a match may be, what it waits for there, and where an event brings it.

    small ×3+ ──then──▶ large      A match that has taken three small ones waits for two things at once: another small
      ▲  │ repeat                  one, and a large one. Each is a way on. An event goes every way that wants it, in a
      └──┘                         copy of the match, and shuts the ways that may not let it pass.

An event is here only which conditions hold for it, as bits. So where it brings a match is looked up, once it is known.
"""

from collections.abc import Iterator
from functools import reduce
from operator import or_
from typing import NamedTuple

from headrace.declare.sequence import Near, Sequence


class Way(NamedTuple):
    """A way on: to which step, or the end; how near; the condition it wants, and those that must not come, as bits."""

    target: int
    near: Near
    wants: int
    nevers: int

    def is_open_after(self, held: int) -> bool:
        """Whether an event may pass without being taken this way."""
        if self.near == "next" or held & self.nevers:
            return False
        return self.near == "then_any" or not held & self.wants


class Move(NamedTuple):
    """What an event does to a match: the steps that take it, each in a copy, and what the match itself waits for."""

    takes: tuple[int, ...]
    left: "Waiting"


class Waiting:
    """What a match waits for whose last event a step took: the ways on from there that are open, by their numbers."""

    def __init__(self, automaton: "Automaton", step: int, is_open: tuple[int, ...]) -> None:
        self.step, self.is_open = step, is_open
        self.ways = [automaton.ways[step][number] for number in is_open]
        self.may_repeat = any(way.target == step for way in self.ways)
        self.ends_in_time = any(way.target == automaton.end for way in self.ways)
        self.reads = reduce(or_, (way.wants | way.nevers for way in self.ways), 0)
        self._automaton, self._moves = automaton, dict[int, Move]()

    def move(self, held: int) -> Move:
        """What an event does for which these conditions hold."""
        found = self._moves.get(held)
        if found is None:
            found = self._moves[held] = self._moved(held)
        return found

    def _moved(self, held: int) -> Move:
        takes = tuple(way.target for way in self.ways if held & way.wants)
        left = tuple(number for number, way in zip(self.is_open, self.ways, strict=True) if way.is_open_after(held))
        return Move(takes, self._automaton.waiting(self.step, left))


class Automaton:
    """The steps of a sequence and the ways between them."""

    def __init__(self, sequence: Sequence) -> None:
        self.steps, self.nevers, self.end = sequence.steps, sequence.nevers, len(sequence.steps)
        self.ways = [tuple(self._ways(step)) for step in range(self.end)]
        self.is_strict = any(way.near == "next" for ways in self.ways for way in ways)
        self._waiting: dict[tuple[int, tuple[int, ...]], Waiting] = {}
        self._may_end = [
            self.end in self._targets(step) and not self._between(step, self.end) for step in range(self.end)
        ]

    def after(self, step: int, count: int) -> Waiting:
        """What is waited for when a step has just taken an event, its so-manieth."""
        least, most = self.steps[step].least, self.steps[step].most
        may_repeat, may_go_on = most is None or count < most, count >= least
        numbered = enumerate(way.target == step for way in self.ways[step])
        return self.waiting(step, tuple(n for n, repeats in numbered if (may_repeat if repeats else may_go_on)))

    def is_whole(self, step: int, count: int) -> bool:
        """Whether a match is one as it stands: nothing more need come, and nothing is left that must not."""
        return self._may_end[step] and count >= self.steps[step].least

    def waiting(self, step: int, is_open: tuple[int, ...]) -> Waiting:
        """The one that waits there for just these: what is waited for alike is the same."""
        found = self._waiting.get((step, is_open))
        if found is None:
            found = self._waiting[step, is_open] = Waiting(self, step, is_open)
        return found

    def _ways(self, step: int) -> Iterator[Way]:
        yield Way(step, self.steps[step].repeat, 1 << step, 0)
        for target in self._targets(step):
            if target < self.end:
                yield Way(target, self.steps[target].near, 1 << target, self._between(step, target))
            elif nevers := self._between(step, self.end):
                yield Way(target, "then_any", 0, nevers)

    def _targets(self, step: int) -> Iterator[int]:
        """The steps that may come after one, and the end if it may: those left out are optional."""
        for target in range(step + 1, self.end):
            yield target
            if not self.steps[target].optional:
                return
        yield self.end

    def _between(self, step: int, target: int) -> int:
        """The bits of what must not come between two steps; those of nevers follow those of steps."""
        return sum(1 << self.end + n for n, never in enumerate(self.nevers) if step < never.before <= target)
