"""Chains: operations that read what other derivations write are told the time only as far as those have come.

    payments ──▶ gate ──▶ spend (an operation, its clock at 10:00) ──▶ gate ──▶ bursts, whose clock is at most 10:00

What an operation makes from now on is known at its own clock or later, but for keys that are looked at once a second:
so its clock counts in whole seconds that are past. A function passes on what it is given: it has come as far as the
gates of what it reads, once it has committed what they had written.
"""

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

from headrace.declare.derivation import Derivation, Derived, Operation
from headrace.log.offsets import Offsets
from headrace.stream.checkpoints import committed_places, committed_watermark_us
from headrace.stream.clock import Clock, now_us
from headrace.stream.gate_progress import GateWatch
from headrace.stream.keyed import FINE_US, Keyed
from headrace.stream.operation import KeyedSpec
from headrace.stream.operations import KeptRun

TICK_US = 1000  # Spark wakes what is due before the watermark, not at it


@dataclass
class Chain:
    """Where derivations keep their places, and how far each is known to have come."""

    broker: str
    state: Path
    runs: Mapping[str, KeptRun] = field(default_factory=dict)
    _functions: dict[str, Callable[[], int]] = field(default_factory=dict)

    def spec(self, run: KeptRun, outputs: Sequence[Derived], changelog_partitions: int = 1) -> KeyedSpec:
        """An operation as a query that knows those before it."""
        keyed = Keyed(run.laid_out, tuple(outputs), self.broker, changelog_partitions=changelog_partitions)
        before = Chain(self.broker, self.state, self.runs)  # of its own: what it has seen belongs to one thread
        return KeyedSpec(keyed, run.checkpoint(self.state), self.gate, before.clock_us, run.since_us)

    def gate(self, stream: str) -> Path:
        return self._checkpoints / stream / "gate"

    def clock_us(self, derivation: Derivation) -> int:
        """Up to when a derivation has written all it knows; 0 before it has said so."""
        with suppress(OSError, ValueError):  # Spark cleans up meanwhile: the next look finds it
            if isinstance(derivation, Operation):
                watermark_us = committed_watermark_us(self.runs[derivation.name].checkpoint(self.state))
                return max(0, watermark_us - TICK_US) // FINE_US * FINE_US
            if derivation.name not in self._functions:
                self._functions[derivation.name] = self._function(derivation)
            return self._functions[derivation.name]()
        return 0

    def known_until_us(self, inputs: Sequence[Derived]) -> int:
        return min([now_us(), *(self.clock_us(stream.made_by) for stream in inputs)])

    def _function(self, derivation: Derivation) -> Callable[[], int]:
        """How far a function has come, when asked."""
        offsets, known = Offsets(self.broker), [0]
        derived = [stream for stream in derivation.inputs if isinstance(stream, Derived)]
        gates = [GateWatch(stream, offsets, self.gate(stream.name)) for stream in derivation.inputs]
        clock = Clock(gates, offsets, (), lambda: self.known_until_us(derived))

        def come_to() -> int:
            known.append(clock.look(committed_places(self._checkpoints / derivation.name / "derive")) or known.pop())
            return known[-1]

        return come_to

    @property
    def _checkpoints(self) -> Path:
        return self.state.resolve() / "checkpoints"
