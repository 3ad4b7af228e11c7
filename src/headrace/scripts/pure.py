"""A script where nothing is between the operator and its events, but that it is packed after each step."""

from collections.abc import Sequence

from headrace.declare.derivation import Derived, Operation
from headrace.operators.of import operator_of
from headrace.operators.operator import Arrived, Key, Made, step
from headrace.operators.rows import row_of
from headrace.scripts.acts import Act, Kill, Row, Rows, Watermark


class Pure:
    """Plays a script where nothing is between the operator and its events; what is kept is packed after each step."""

    def play(self, operation: Operation, outputs: Sequence[Derived], acts: Sequence[Act]) -> Rows:
        """Every row that was made, each once, by output."""
        playing = _Playing(operation)
        for act in acts:
            playing.do(act)
        playing.step(playing.clock_us)
        return {stream.output: playing.rows(stream) for stream in outputs}


class _Playing:
    """How far a script is: what is kept of each key, what was sent since, what was written."""

    def __init__(self, operation: Operation) -> None:
        self._operation, self._operator = operation, operator_of(operation)
        self._kept: dict[Key, bytes] = {}
        self._sent: list[Arrived] = []
        self._written: dict[tuple[str, str], tuple[Key, Made]] = {}
        self.clock_us = 0

    def do(self, act: Act) -> None:
        match act:
            case Watermark(at_us):
                self.step(at_us)
            case Kill():
                self._stepped(self.clock_us)
            case Arrived() if None not in self._key(act):  # without its whole key an event is nobody's
                self._sent.append(act)

    def step(self, clock_us: int) -> None:
        """Take what was sent, let time pass, and keep what is left."""
        self._kept, self._sent, self.clock_us = self._stepped(clock_us), [], clock_us

    def _stepped(self, clock_us: int) -> dict[Key, bytes]:
        """What would be kept of each key; what is made is written."""
        left = {}
        for key in dict.fromkeys([*self._kept, *(self._key(event) for event in self._sent)]):
            packed = self._kept.get(key)
            kept = self._operator.begin() if packed is None else self._operator.unpacked(packed)
            own = [event for event in self._sent if self._key(event) == key]
            for made in step(self._operator, key, kept, own, clock_us):
                self._write(key, made)
            if self._operator.due_us(kept) is not None:
                left[key] = self._operator.packed(kept)
        return left

    def _key(self, event: Arrived) -> Key:
        return tuple(event.values[name] for name in self._operation.by[event.source])

    def _write(self, key: Key, made: Made) -> None:
        """Whoever reads a row again drops it by its id: then it must be the same."""
        _, before = self._written.setdefault((made.output, made.id), (key, made))
        if repr(before) != repr(made):
            raise AssertionError(f"{made.id} was made twice, and not the same: first {before}, then {made}")

    def rows(self, stream: Derived) -> list[Row]:
        by = self._operation.by[0]
        found = [(key, made) for key, made in self._written.values() if made.output == stream.output]
        return [row_of(made, key, by, stream) for key, made in found]
