"""Plays a script on the operator alone, without Spark or a broker."""

from collections.abc import Sequence

from headrace.declare.operations.derived_stream import DerivedStream, StreamOperation
from headrace.operators.factory import create_operator
from headrace.operators.operator import InputEvent, Key, OutputEvent, advance_operator
from headrace.operators.output_rows import to_output_row
from headrace.testing.scripts.steps import KillStep, OutputRow, RowsByOutput, ScriptStep, WatermarkStep


class PureHost:
    """Plays a script on the operator alone; its state is encoded after each step."""

    def play(
        self, operation: StreamOperation, outputs: Sequence[DerivedStream], steps: Sequence[ScriptStep]
    ) -> RowsByOutput:
        """The rows that were emitted, each once, by output."""
        script_run = _PureScriptRun(operation)
        for step in steps:
            script_run.apply_step(step)
        script_run.advance_and_commit(script_run.clock_us)
        return {stream.output: script_run.output_rows(stream) for stream in outputs}


class _PureScriptRun:
    """The progress of a script: the state of each key, the pending events, the rows written."""

    def __init__(self, operation: StreamOperation) -> None:
        self._operation, self._operator = operation, create_operator(operation)
        self._encoded_states: dict[Key, bytes] = {}
        self._sent_events: list[InputEvent] = []
        self._written_outputs: dict[tuple[str, str], tuple[Key, OutputEvent]] = {}
        self.clock_us = 0

    def apply_step(self, step: ScriptStep) -> None:
        match step:
            case WatermarkStep(at_us):
                self.advance_and_commit(at_us)
            case KillStep():
                self._advance_keys(self.clock_us)
            case InputEvent() if None not in self._event_key(step):  # an event with a null in its key belongs to no key
                self._sent_events.append(step)

    def advance_and_commit(self, clock_us: int) -> None:
        """Process the pending events, advance the clock, and commit the state."""
        self._encoded_states, self._sent_events, self.clock_us = self._advance_keys(clock_us), [], clock_us

    def _advance_keys(self, clock_us: int) -> dict[Key, bytes]:
        """The encoded states of all keys after advancing; emitted rows are written."""
        encoded_states = {}
        for key in dict.fromkeys([*self._encoded_states, *(self._event_key(event) for event in self._sent_events)]):
            encoded = self._encoded_states.get(key)
            state = self._operator.create_state() if encoded is None else self._operator.decode_state(encoded)
            key_events = [event for event in self._sent_events if self._event_key(event) == key]
            for output in advance_operator(self._operator, key, state, key_events, clock_us):
                self._write_output(key, output)
            if self._operator.next_timer_us(state) is not None:
                encoded_states[key] = self._operator.encode_state(state)
        return encoded_states

    def _event_key(self, event: InputEvent) -> Key:
        return tuple(event.values[name] for name in self._operation.by[event.input_index])

    def _write_output(self, key: Key, output: OutputEvent) -> None:
        """Readers deduplicate rows by id: a row that is emitted again must be the same."""
        _, first_output = self._written_outputs.setdefault((output.output, output.id), (key, output))
        if repr(first_output) != repr(output):
            raise AssertionError(
                f"{output.id} was emitted twice with different values: first {first_output}, then {output}"
            )

    def output_rows(self, stream: DerivedStream) -> list[OutputRow]:
        key_columns = self._operation.by[0]
        keyed_outputs = [
            (key, output) for key, output in self._written_outputs.values() if output.output == stream.output
        ]
        return [to_output_row(output, key, key_columns, stream) for key, output in keyed_outputs]
