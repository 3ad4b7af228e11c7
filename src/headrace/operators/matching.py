"""The matches of one key that are under way, what an event and what time make of them, and which of them are told.

    s1 s2 s3        of "small ×2+, then large" these are under way: s1 s2 s3, waiting for small or large;
                    s1 s2, waiting for large; s2 s3, waiting for small or large; s3, waiting for small

Of two that begin together and wait for the same only the better one can ever be told, unless all are: the other is let
go of. So what is kept grows with the events that may begin a match, not with the ways to choose among them.
"""

from collections.abc import Iterable, Iterator
from itertools import groupby, takewhile
from typing import Any, Literal, NamedTuple

from headrace.declare.sequence import Sequence
from headrace.operators.nfa import Automaton
from headrace.operators.taking import Run, Seen, Start, Taker, events_of

Why = Literal["match", "within", "crowded"]


class Ended(NamedTuple):
    """A match that is told, or the furthest that came of a first event when time was over or too many were open."""

    run: Run
    time_us: int
    why: Why


class Matching:
    """What becomes of the matches of a key; those under way are a list, in the order of their first events."""

    def __init__(self, sequence: Sequence) -> None:
        self.automaton, self.taker = Automaton(sequence), Taker(sequence)
        self._after, self._within_us, self._most = sequence.after, sequence.within_us, sequence.partials
        self._steps = sequence.steps
        self._signs = [1 if step.reluctant else -1 for step in sequence.steps]

    def may_matter(self, event: Seen) -> bool:
        """Whether an event may change anything: it meets a condition, or one that is to be next must not be missed."""
        return bool(event.held) or self.automaton.is_strict or self.taker.reads_earlier

    def feed(self, runs: list[Run], event: Seen) -> Iterator[Ended]:
        """The next event, by time and place."""
        grown = [*self._grown(runs, event), *self._begun(event)]
        going = [run for run in grown if run.waiting.ways]
        runs[:] = going if len(grown) == len(runs) else self._kept(going)
        whole = [run for run in grown if run.taken.event is event and self._is_whole(run)]
        yield from (Ended(run, event.time_us, "match") for run in self._told(whole, runs))
        yield from self._crowded_out(runs, event.time_us)

    def expire(self, runs: list[Run], until_us: int) -> Iterator[Ended]:
        """All events up to this time are known: what began so long ago can take no more."""
        over = list(takewhile(lambda run: self.deadline_us(run.start) <= until_us, runs))
        del runs[: len(over)]
        told = self._told([run for run in over if run.waiting.ends_in_time], runs)
        yield from (Ended(run, until_us, "match") for run in told)
        if not told or self._after != "skip_past_last":
            yield from self._timed_out(over, until_us)

    def deadline_us(self, start: Start) -> int:
        """The last time at which a match with that first event may end."""
        return start.event.time_us + self._within_us

    def _grown(self, runs: Iterable[Run], event: Seen) -> Iterator[Run]:
        """Every match under way, and a copy of it for each step that takes the event."""
        for run in runs:
            held = self.taker.held(event, run.taken, run.waiting.reads)
            takes, run.waiting = run.waiting.move(held)
            yield run
            for step in takes:
                yield self._taking(run.start, event, step, run)

    def _begun(self, event: Seen) -> Iterator[Run]:
        if self.taker.held(event, None, 1) & 1:
            yield self._taking(Start(event), event, 0, None)

    def _taking(self, start: Start, event: Seen, step: int, run: Run | None) -> Run:
        taken = self.taker.taken(event, step, None if run is None else run.taken)
        return Run(start, taken, self.automaton.after(step, taken.counts[step]))

    def _is_whole(self, run: Run) -> bool:
        return self.automaton.is_whole(run.taken.step, run.taken.counts[run.taken.step])

    def _kept(self, runs: list[Run]) -> list[Run]:
        """Those that can still be told."""
        if self._after == "no_skip":
            return runs
        best: dict[Any, Run] = {}
        for run in runs:
            alike = run.start, run.waiting, self._count(run), run.taken.read
            if alike not in best or self._is_better(run, best[alike]):
                best[alike] = run
        return list(best.values())

    def _count(self, run: Run) -> int:
        """How many the last step has taken, as far as it matters to what may come."""
        step, count = self._steps[run.taken.step], run.taken.counts[run.taken.step]
        if not run.waiting.may_repeat:
            return 0
        return min(count, step.least) if step.most is None else count

    def _told(self, whole: list[Run], runs: list[Run]) -> list[Run]:
        """Those that are told of the matches that end now; what that makes impossible is let go of."""
        told = sorted(whole, key=self._order)
        if told and self._after != "no_skip":
            told = [next(same) for _, same in groupby(told, key=lambda run: run.start)]
            told = told[:1] if self._after == "skip_past_last" else told
        for run in told:
            run.start.is_told = True
        if told and self._after != "no_skip":
            runs[:] = [run for run in runs if self._after == "skip_to_next" and not run.start.is_told]
        return told

    def _timed_out(self, over: list[Run], time_us: int) -> Iterator[Ended]:
        for start, same in groupby(over, key=lambda run: run.start):
            if not start.is_told:
                yield Ended(self._furthest(same), time_us, "within")

    def _crowded_out(self, runs: list[Run], time_us: int) -> Iterator[Ended]:
        """Where too many are under way, those that began first are given up."""
        while len(runs) > self._most:
            _, same = next(groupby(runs, key=lambda run: run.start))
            oldest = list(same)
            del runs[: len(oldest)]
            yield Ended(self._furthest(oldest), time_us, "crowded")

    def _furthest(self, runs: Iterable[Run]) -> Run:
        return min(runs, key=lambda run: (-run.taken.step, self._order(run)))

    def _is_better(self, one: Run, other: Run) -> bool:
        left, right = self._signed(one), self._signed(other)
        return left < right if left != right else self._order(one) < self._order(other)

    def _signed(self, run: Run) -> list[int]:
        return [sign * count for sign, count in zip(self._signs, run.taken.counts, strict=True)]

    def _order(self, run: Run) -> tuple[Any, ...]:
        """The earlier first event, then more events of each step in turn (fewer if reluctant), then earlier ones."""
        return run.start.event.place, self._signed(run), [taken.event.place for taken in events_of(run.taken)]
