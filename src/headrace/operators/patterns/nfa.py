"""The automaton of a sequence: states, the transitions that a state has open, and the effect of an event.

    small ×3+ ──then──▶ large      A match with three small events has two open transitions: another small event,
    ▲  │ repeat                  and a large one. An event takes every transition whose condition it satisfies, each in
    └──┘                         a copy of the match, and closes the transitions that may not skip it.

An event is represented by the bits of its satisfied conditions, so that its effect on a state is cached.
"""

from collections.abc import Iterator
from functools import reduce
from operator import or_
from typing import NamedTuple

from headrace.declare.operations.pattern_sequence import Contiguity, Sequence


class Transition(NamedTuple):
    """A transition: its target step, or the end; its contiguity; its condition and forbidden ones, as bits."""

    target: int
    contiguity: Contiguity
    accepts: int
    forbids: int

    def is_open_after(self, satisfied: int) -> bool:
        """Whether an event may be skipped by this transition."""
        if self.contiguity == "next" or satisfied & self.forbids:
            return False
        return self.contiguity == "then_any" or not satisfied & self.accepts


class TransitionResult(NamedTuple):
    """The effect of an event on a match: the steps that take it, each in a copy, and the match's own new state."""

    target_steps: tuple[int, ...]
    next_state: "NfaState"


class NfaState:
    """The state of a match after a step: the open transitions from there, by number."""

    def __init__(self, automaton: "PatternAutomaton", step: int, open_numbers: tuple[int, ...]) -> None:
        self.step, self.open_numbers = step, open_numbers
        self.transitions = [automaton.transitions[step][number] for number in open_numbers]
        self.may_repeat = any(transition.target == step for transition in self.transitions)
        self.completes_on_timeout = any(way.target == automaton.end for way in self.transitions)
        self.conditions_read = reduce(or_, (way.accepts | way.forbids for way in self.transitions), 0)
        self._automaton, self._results = automaton, dict[int, TransitionResult]()

    def advance(self, satisfied: int) -> TransitionResult:
        """The effect of an event with these satisfied conditions."""
        result = self._results.get(satisfied)
        if result is None:
            result = self._results[satisfied] = self._compute_result(satisfied)
        return result

    def _compute_result(self, satisfied: int) -> TransitionResult:
        target_steps = tuple(transition.target for transition in self.transitions if satisfied & transition.accepts)
        open_numbers = tuple(
            number
            for number, way in zip(self.open_numbers, self.transitions, strict=True)
            if way.is_open_after(satisfied)
        )
        return TransitionResult(target_steps, self._automaton.find_state(self.step, open_numbers))


class PatternAutomaton:
    """The steps of a sequence and the transitions between them."""

    def __init__(self, sequence: Sequence) -> None:
        self.steps, self.nevers, self.end = sequence.steps, sequence.nevers, len(sequence.steps)
        self.transitions = [tuple(self._transitions_from(step)) for step in range(self.end)]
        self.is_strict = any(
            transition.contiguity == "next" for transitions in self.transitions for transition in transitions
        )
        self._states: dict[tuple[int, tuple[int, ...]], NfaState] = {}
        self._can_end = [
            self.end in self._target_steps(step) and not self._nevers_between(step, self.end)
            for step in range(self.end)
        ]

    def state_after(self, step: int, count: int) -> NfaState:
        """The state after a step has taken its nth event."""
        min_count, max_count = self.steps[step].least, self.steps[step].most
        may_repeat, may_go_on = max_count is None or count < max_count, count >= min_count
        numbered_repeats = enumerate(transition.target == step for transition in self.transitions[step])
        return self.find_state(
            step, tuple(number for number, is_repeat in numbered_repeats if (may_repeat if is_repeat else may_go_on))
        )

    def is_complete(self, step: int, count: int) -> bool:
        """Whether a match is complete: no further event is required, and none is forbidden."""
        return self._can_end[step] and count >= self.steps[step].least

    def find_state(self, step: int, open_numbers: tuple[int, ...]) -> NfaState:
        """The state of these open transitions; equal states are the same object."""
        state = self._states.get((step, open_numbers))
        if state is None:
            state = self._states[step, open_numbers] = NfaState(self, step, open_numbers)
        return state

    def _transitions_from(self, step: int) -> Iterator[Transition]:
        yield Transition(step, self.steps[step].repeat, 1 << step, 0)
        for target in self._target_steps(step):
            if target < self.end:
                yield Transition(target, self.steps[target].near, 1 << target, self._nevers_between(step, target))
            elif nevers := self._nevers_between(step, self.end):
                yield Transition(target, "then_any", 0, nevers)

    def _target_steps(self, step: int) -> Iterator[int]:
        """The possible next steps, and the end if possible: those skipped are optional."""
        for target in range(step + 1, self.end):
            yield target
            if not self.steps[target].optional:
                return
        yield self.end

    def _nevers_between(self, step: int, target: int) -> int:
        """The bits of the events forbidden between two steps; those of nevers follow those of steps."""
        return sum(1 << self.end + number for number, never in enumerate(self.nevers) if step < never.before <= target)
