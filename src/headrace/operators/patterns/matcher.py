"""Matches one key's events: extends partial matches by events and time, and selects the matches to emit.

    s1 s2 s3        partial matches of "small ×2+, then large": s1 s2 s3, waiting for small or large;
                    s1 s2, waiting for large; s2 s3, waiting for small or large; s3, waiting for small

Of two matches with the same start and the same state only the better one can ever be emitted, unless all are: the
other is dropped. So the state grows with the events that may start a match, not with the ways to choose among them.
"""

from collections.abc import Iterable, Iterator
from itertools import groupby, takewhile
from typing import Any, Literal, NamedTuple

from headrace.declare.operations.pattern_sequence import Sequence
from headrace.operators.patterns.match_state import (
    MatchStart,
    PartialMatch,
    PatternEvaluator,
    PatternEvent,
    matched_events,
)
from headrace.operators.patterns.nfa import PatternAutomaton

EndReason = Literal["match", "within", "crowded"]


class EndedMatch(NamedTuple):
    """An emitted match, or the longest partial match of a first event when its time was over or too many were open."""

    partial_match: PartialMatch
    time_us: int
    reason: EndReason


class PatternMatcher:
    """The matches of a key; partial ones are a list, in the order of their first events."""

    def __init__(self, sequence: Sequence) -> None:
        self.automaton, self.evaluator = PatternAutomaton(sequence), PatternEvaluator(sequence)
        self._skip_strategy, self._within_us, self._max_partials = sequence.after, sequence.within_us, sequence.partials
        self._steps = sequence.steps
        self._count_signs = [1 if step.reluctant else -1 for step in sequence.steps]

    def is_relevant(self, event: PatternEvent) -> bool:
        """Whether an event can change anything: it satisfies a condition, or a strict step must not skip it."""
        return bool(event.satisfied) or self.automaton.is_strict or self.evaluator.reads_earlier_events

    def process_event(self, matches: list[PartialMatch], event: PatternEvent) -> Iterator[EndedMatch]:
        """Process the next event, by time and position."""
        candidates = [*self._extend_matches(matches, event), *self._start_matches(event)]
        open_matches = [partial_match for partial_match in candidates if partial_match.state.transitions]
        matches[:] = open_matches if len(candidates) == len(matches) else self._prune_dominated(open_matches)
        complete = [run for run in candidates if run.last_event.event is event and self._is_complete(run)]
        yield from (EndedMatch(run, event.time_us, "match") for run in self._select_matches(complete, matches))
        yield from self._evict_oldest(matches, event.time_us)

    def expire_matches(self, matches: list[PartialMatch], until_us: int) -> Iterator[EndedMatch]:
        """Expire matches: all events up to this time are known, so that older starts can take no more."""
        expired = list(takewhile(lambda partial_match: self.deadline_us(partial_match.start) <= until_us, matches))
        del matches[: len(expired)]
        selected = self._select_matches([run for run in expired if run.state.completes_on_timeout], matches)
        yield from (EndedMatch(run, until_us, "match") for run in selected)
        if not selected or self._skip_strategy != "skip_past_last":
            yield from self._end_timed_out(expired, until_us)

    def deadline_us(self, start: MatchStart) -> int:
        """The last time at which a match with that first event may end."""
        return start.event.time_us + self._within_us

    def _extend_matches(self, matches: Iterable[PartialMatch], event: PatternEvent) -> Iterator[PartialMatch]:
        """Every partial match, and a copy of it for each step that takes the event."""
        for partial_match in matches:
            satisfied = self.evaluator.satisfied_conditions(
                event, partial_match.last_event, partial_match.state.conditions_read
            )
            target_steps, partial_match.state = partial_match.state.advance(satisfied)
            yield partial_match
            for step in target_steps:
                yield self._take_event(partial_match.start, event, step, partial_match)

    def _start_matches(self, event: PatternEvent) -> Iterator[PartialMatch]:
        if self.evaluator.satisfied_conditions(event, None, 1) & 1:
            yield self._take_event(MatchStart(event), event, 0, None)

    def _take_event(
        self, start: MatchStart, event: PatternEvent, step: int, partial_match: PartialMatch | None
    ) -> PartialMatch:
        last_event = self.evaluator.append_event(
            event, step, None if partial_match is None else partial_match.last_event
        )
        return PartialMatch(start, last_event, self.automaton.state_after(step, last_event.step_counts[step]))

    def _is_complete(self, partial_match: PartialMatch) -> bool:
        return self.automaton.is_complete(
            partial_match.last_event.step, partial_match.last_event.step_counts[partial_match.last_event.step]
        )

    def _prune_dominated(self, matches: list[PartialMatch]) -> list[PartialMatch]:
        """The matches that can still be emitted."""
        if self._skip_strategy == "no_skip":
            return matches
        best: dict[Any, PartialMatch] = {}
        for partial_match in matches:
            group_key = (
                partial_match.start,
                partial_match.state,
                self._relevant_count(partial_match),
                partial_match.last_event.referenced,
            )
            if group_key not in best or self._is_better(partial_match, best[group_key]):
                best[group_key] = partial_match
        return list(best.values())

    def _relevant_count(self, partial_match: PartialMatch) -> int:
        """How many events the last step has taken, as far as it affects later events."""
        step, count = (
            self._steps[partial_match.last_event.step],
            partial_match.last_event.step_counts[partial_match.last_event.step],
        )
        if not partial_match.state.may_repeat:
            return 0
        return min(count, step.least) if step.most is None else count

    def _select_matches(self, complete: list[PartialMatch], matches: list[PartialMatch]) -> list[PartialMatch]:
        """The matches to emit among those that end now; drops the partial ones that this excludes."""
        selected = sorted(complete, key=self._sort_key)
        if selected and self._skip_strategy != "no_skip":
            selected = [next(group) for _, group in groupby(selected, key=lambda partial_match: partial_match.start)]
            selected = selected[:1] if self._skip_strategy == "skip_past_last" else selected
        for run in selected:
            run.start.is_emitted = True
        if selected and self._skip_strategy != "no_skip":
            matches[:] = [run for run in matches if self._skip_strategy == "skip_to_next" and not run.start.is_emitted]
        return selected

    def _end_timed_out(self, expired: list[PartialMatch], time_us: int) -> Iterator[EndedMatch]:
        for start, group in groupby(expired, key=lambda partial_match: partial_match.start):
            if not start.is_emitted:
                yield EndedMatch(self._furthest_match(group), time_us, "within")

    def _evict_oldest(self, matches: list[PartialMatch], time_us: int) -> Iterator[EndedMatch]:
        """Drop the oldest partial matches above the limit."""
        while len(matches) > self._max_partials:
            _, group = next(groupby(matches, key=lambda partial_match: partial_match.start))
            oldest = list(group)
            del matches[: len(oldest)]
            yield EndedMatch(self._furthest_match(oldest), time_us, "crowded")

    def _furthest_match(self, matches: Iterable[PartialMatch]) -> PartialMatch:
        return min(matches, key=lambda partial_match: (-partial_match.last_event.step, self._sort_key(partial_match)))

    def _is_better(self, first: PartialMatch, second: PartialMatch) -> bool:
        first_counts, second_counts = self._signed_counts(first), self._signed_counts(second)
        return (
            first_counts < second_counts
            if first_counts != second_counts
            else self._sort_key(first) < self._sort_key(second)
        )

    def _signed_counts(self, partial_match: PartialMatch) -> list[int]:
        return [
            sign * count for sign, count in zip(self._count_signs, partial_match.last_event.step_counts, strict=True)
        ]

    def _sort_key(self, partial_match: PartialMatch) -> tuple[Any, ...]:
        """The earlier first event, then more events of each step in turn (fewer if reluctant), then earlier ones."""
        return (
            partial_match.start.event.position,
            self._signed_counts(partial_match),
            [node.event.position for node in matched_events(partial_match.last_event)],
        )
