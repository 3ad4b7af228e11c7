"""Partial matches: the events a match has taken, and the evaluation of conditions on later ones."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple

from headrace.aggregates.partial import Scalar
from headrace.declare.expressions import field_names
from headrace.declare.operations.pattern_sequence import Sequence
from headrace.operators.operator import InputEvent
from headrace.operators.patterns.nfa import NfaState
from headrace.operators.row_expressions import Evaluator, RowValues, compile_expression


class PatternEvent(NamedTuple):
    """A stored event: its time and position, which order it; its id; its satisfied conditions; some columns."""

    time_us: int
    partition: int
    offset: int
    id: Scalar
    satisfied: int
    values: tuple[Any, ...]

    @property
    def position(self) -> tuple[int, int, int]:
        return self[:3]


class MatchedEvent(NamedTuple):
    """An event that a step took: the count of each step so far, and the values that conditions read.

    Matches share their common beginning.
    """

    event: PatternEvent
    step: int
    previous: "MatchedEvent | None"
    step_counts: tuple[int, ...]
    referenced: tuple[PatternEvent | None, ...]


def matched_events(last_event: MatchedEvent) -> list[MatchedEvent]:
    """All matched events, in order."""
    nodes, node = [last_event], last_event.previous
    while node is not None:
        nodes.append(node)
        node = node.previous
    return nodes[::-1]


@dataclass(slots=True, eq=False)
class MatchStart:
    """The first event of some matches, and whether one of them was emitted."""

    event: PatternEvent
    is_emitted: bool = False


@dataclass(slots=True, eq=False)
class PartialMatch:
    """A partial match: its start, its last event, and its state."""

    start: MatchStart
    last_event: MatchedEvent
    state: NfaState


class PatternEvaluator:
    """Evaluates which conditions hold for an event, and appends events to matches."""

    def __init__(self, sequence: Sequence) -> None:
        self.columns = sequence.retained_columns
        self._references = [(reference, self.columns.index(reference.column)) for reference in sequence.references]
        self._event_conditions = list(_conditions(sequence, reads_earlier=False))
        self._match_conditions = list(_conditions(sequence, reads_earlier=True))
        self.reads_earlier_events = bool(self._match_conditions)
        self._empty = (0,) * len(sequence.steps), (None,) * len(self._references)

    def to_pattern_event(self, event: InputEvent) -> PatternEvent:
        """The stored form of an event."""
        satisfied = sum(bit for bit, is_satisfied in self._event_conditions if is_satisfied(event.values))
        values = tuple(event.values[name] for name in self.columns)
        return PatternEvent(event.time_us, event.partition, event.offset, event.id, satisfied, values)

    def satisfied_conditions(self, event: PatternEvent, last_event: MatchedEvent | None, wanted_bits: int) -> int:
        """The conditions that hold for an event after a match, as bits; of those that read it, only the wanted ones."""
        if not self.reads_earlier_events:
            return event.satisfied
        row = self._condition_row(event, self._empty[1] if last_event is None else last_event.referenced)
        return event.satisfied | sum(
            bit for bit, is_satisfied in self._match_conditions if bit & wanted_bits and is_satisfied(row)
        )

    def append_event(self, event: PatternEvent, step: int, previous: MatchedEvent | None) -> MatchedEvent:
        """Append an event to a match by a step."""
        step_counts, referenced = self._empty if previous is None else (previous.step_counts, previous.referenced)
        new_counts = (*step_counts[:step], step_counts[step] + 1, *step_counts[step + 1 :])
        return MatchedEvent(
            event,
            step,
            previous,
            new_counts,
            self._update_referenced(referenced, step, event) if referenced else referenced,
        )

    def _update_referenced(
        self, referenced: tuple[PatternEvent | None, ...], step: int, event: PatternEvent
    ) -> tuple[PatternEvent | None, ...]:
        return tuple(
            event if reference.step_number == step and (previous is None or reference.position == "last") else previous
            for previous, (reference, _) in zip(referenced, self._references, strict=True)
        )

    def _condition_row(self, event: PatternEvent, referenced: tuple[PatternEvent | None, ...]) -> RowValues:
        row = dict(zip(self.columns, event.values, strict=True))
        for earlier_event, (reference, column) in zip(referenced, self._references, strict=True):
            row[reference.name] = None if earlier_event is None else earlier_event.values[column]
        return row


def _conditions(sequence: Sequence, *, reads_earlier: bool) -> Iterator[tuple[int, Evaluator]]:
    """The conditions that read earlier events, or those that do not, each with its bit."""
    own_columns = set(sequence.schema.names)
    for bit_number, condition in enumerate(sequence.conditions):
        if (not field_names(condition) <= own_columns) == reads_earlier:
            yield 1 << bit_number, compile_expression(condition, sequence.readable_schema)
