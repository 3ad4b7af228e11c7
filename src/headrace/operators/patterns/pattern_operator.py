"""The pattern operator: events wait until none before them can arrive, and are then matched in order.

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

from headrace.declare.operations.pattern_outputs import ENDED_AT, STARTED_AT, late_column_names
from headrace.declare.operations.pattern_sequence import Sequence
from headrace.operators.operator import InputEvent, Key, Operator, OutputEvent
from headrace.operators.patterns.match_codec import decode_matches, encode_matches
from headrace.operators.patterns.match_state import MatchedEvent, PartialMatch, PatternEvent, matched_events
from headrace.operators.patterns.matcher import EndedMatch, PatternMatcher


@dataclass
class PatternState:
    """The state of a key: waiting events as a heap, and partial matches."""

    pending_events: list[PatternEvent] = field(default_factory=list)
    partial_matches: list[PartialMatch] = field(default_factory=list)


class PatternOperator(Operator[PatternState]):
    """Matches a sequence against the events of each key."""

    def __init__(self, sequence: Sequence) -> None:
        self._sequence, self._matcher = sequence, PatternMatcher(sequence)
        self._late_names = late_column_names(sequence)

    def create_state(self) -> PatternState:
        return PatternState()

    def process_event(self, key: Key, state: PatternState, event: InputEvent) -> Iterator[OutputEvent]:
        if event.lateness_us > self._sequence.patience_us:
            yield self._late_output(key, event)
        elif self._matcher.is_relevant(pattern_event := self._matcher.evaluator.to_pattern_event(event)):
            heappush(state.pending_events, pattern_event)

    def next_timer_us(self, state: PatternState) -> int | None:
        times_us = [pending_event.time_us for pending_event in state.pending_events[:1]]
        times_us += [self._matcher.deadline_us(partial_match.start) for partial_match in state.partial_matches[:1]]
        return min(times_us) + self._sequence.patience_us + 1 if times_us else None

    def on_timer(self, key: Key, state: PatternState, timer_us: int) -> Iterator[OutputEvent]:
        """Process one event time, which is complete: its events first, then the matches that expire."""
        time_us = timer_us - self._sequence.patience_us - 1
        while state.pending_events and state.pending_events[0].time_us <= time_us:
            ended_matches = self._matcher.process_event(state.partial_matches, heappop(state.pending_events))
            yield from (self._ended_output(key, ended_match, timer_us) for ended_match in ended_matches)
        for one in self._matcher.expire_matches(state.partial_matches, time_us):
            yield self._ended_output(key, one, timer_us)

    def encode_state(self, state: PatternState) -> bytes:
        return orjson.dumps(encode_matches(state.pending_events, state.partial_matches))

    def decode_state(self, encoded: bytes) -> PatternState:
        return PatternState(*decode_matches(orjson.loads(encoded), self._matcher))

    def _late_output(self, key: Key, event: InputEvent) -> OutputEvent:
        values = {name: event.values[column] for column, name in self._late_names.items()}
        return OutputEvent("late", self._output_id(key, "late", [event.id]), event.time_us, event.arrival_us, values)

    def _ended_output(self, key: Key, ended_match: EndedMatch, known_us: int) -> OutputEvent:
        nodes = matched_events(ended_match.partial_match.last_event)
        values = self._output_values(nodes, ended_match.time_us)
        steps = [[node.step, node.event.id] for node in nodes]
        if ended_match.reason == "match":
            return OutputEvent("out", self._output_id(key, "match", steps), ended_match.time_us, known_us, values)
        progress = {"reached": self._sequence.steps[nodes[-1].step].name, "why": ended_match.reason}
        return OutputEvent(
            "timeouts",
            self._output_id(key, ended_match.reason, steps),
            ended_match.time_us,
            known_us,
            values | progress,
        )

    def _output_values(self, nodes: list[MatchedEvent], time_us: int) -> dict[str, Any]:
        values = {"pattern": self._sequence.title, STARTED_AT: nodes[0].event.time_us, ENDED_AT: time_us}
        values["events"] = len(nodes)
        for step_number, step in enumerate(self._sequence.steps):
            values |= self._step_values(
                step.name, step.keep, [node.event for node in nodes if node.step == step_number]
            )
        return values

    def _step_values(self, name: str, keep: tuple[str, ...], events: list[PatternEvent]) -> dict[str, Any]:
        """The number of events of a step, its first and last one, and the stored columns of the last."""
        first, last = (events[0].id, events[-1].id) if events else (None, None)
        values: dict[str, Any] = {f"{name}_count": len(events), f"{name}_first_id": first, f"{name}_last_id": last}
        for column in keep:
            index = self._matcher.evaluator.columns.index(column)
            values[f"{name}_{column}"] = events[-1].values[index] if events else None
        return values

    def _output_id(self, key: Key, kind: str, event_ids: list[Any]) -> str:
        """The same events give the same id."""
        identity = orjson.dumps([self._sequence.name, key, kind, event_ids])
        return blake2b(identity, digest_size=12).hexdigest()
