"""Error isolation: a step that always completes; events an operator fails on are rejected, the others processed.

events ──▶ step ──▶ outputs and new state
          └── raised ──▶ again, one event at a time ──▶ failing events are rejected
                 └── even the timer fails ──▶ the state is rejected, and the key starts again
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import NamedTuple, TypeVar

from headrace.operators.operator import InputEvent, Key, Operator, OutputEvent, advance_operator

OperatorState = TypeVar("OperatorState")
MAX_REASON_LENGTH = 300


class StepFailure(NamedTuple):
    """A failure: its reason, and the event, or the state where no single event is the cause."""

    reason: str
    event: InputEvent | None = None
    encoded_state: bytes = b""


@dataclass
class OperatorStepResult:
    """The outputs, failures and encoded state of a key after a step; no state is None."""

    outputs: list[OutputEvent] = field(default_factory=list)
    failures: list[StepFailure] = field(default_factory=list)
    encoded_state: bytes | None = None
    next_timer_us: int | None = None


def advance_isolating_errors(
    operator: Operator[OperatorState],
    key: Key,
    encoded_state: bytes | None,
    events: Sequence[InputEvent],
    clock_us: int,
) -> OperatorStepResult:
    """Process the events of a key and advance its clock, whatever the operator raises."""
    try:
        state = operator.create_state() if encoded_state is None else operator.decode_state(encoded_state)
        result = OperatorStepResult(list(advance_operator(operator, key, state, events, clock_us)))
        return _store_state(operator, state, result)
    except Exception:  # noqa: BLE001  # user code and user values may raise anything
        return _advance_one_by_one(operator, key, encoded_state, events, clock_us)


def _store_state(
    operator: Operator[OperatorState], state: OperatorState, result: OperatorStepResult
) -> OperatorStepResult:
    result.next_timer_us = operator.next_timer_us(state)
    result.encoded_state = None if result.next_timer_us is None else operator.encode_state(state)
    return result


def _advance_one_by_one(
    operator: Operator[OperatorState],
    key: Key,
    encoded_state: bytes | None,
    events: Sequence[InputEvent],
    clock_us: int,
) -> OperatorStepResult:
    result = OperatorStepResult()
    current_state = _readable_state(operator, encoded_state, result)
    for event in sorted(events, key=lambda event: event.sort_key):
        current_state = _process_or_isolate(operator, key, current_state, event, result)
    return _fire_timers(operator, key, current_state, clock_us, result)


def _readable_state(
    operator: Operator[OperatorState], encoded_state: bytes | None, result: OperatorStepResult
) -> bytes:
    """The decoded state, or a new one where it cannot be decoded."""
    try:
        if encoded_state is not None:
            operator.decode_state(encoded_state)
            return encoded_state
    except Exception as failure:  # noqa: BLE001
        result.failures.append(StepFailure(failure_reason(failure), encoded_state=encoded_state or b""))
    return operator.encode_state(operator.create_state())


def _process_or_isolate(
    operator: Operator[OperatorState], key: Key, encoded_state: bytes, event: InputEvent, result: OperatorStepResult
) -> bytes:
    """The state after an event, or before it where it fails."""
    try:
        state = operator.decode_state(encoded_state)
        outputs = list(operator.process_event(key, state, event))
        new_state = operator.encode_state(state)
    except Exception as failure:  # noqa: BLE001
        result.failures.append(StepFailure(failure_reason(failure), event))
        return encoded_state
    result.outputs += outputs
    return new_state


def _fire_timers(
    operator: Operator[OperatorState], key: Key, encoded_state: bytes, clock_us: int, result: OperatorStepResult
) -> OperatorStepResult:
    try:
        state = operator.decode_state(encoded_state)
        for output in advance_operator(operator, key, state, (), clock_us):
            result.outputs.append(output)
        return _store_state(operator, state, result)
    except Exception as failure:  # noqa: BLE001
        result.failures.append(StepFailure(failure_reason(failure), encoded_state=encoded_state))
        return OperatorStepResult(result.outputs, result.failures)


def failure_reason(failure: Exception) -> str:
    """The exception in one line."""
    return f"{type(failure).__name__}: {failure}"[:MAX_REASON_LENGTH]
