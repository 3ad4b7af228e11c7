"""Chains of operations: the clock of one that reads derived streams is limited by the clocks of their derivations.

    payments ──▶ gate ──▶ spend (an operation, its clock at 10:00) ──▶ gate ──▶ bursts, whose clock is at most 10:00

An operation's future output has times at its own clock or later, except that timers fire once a second: so its clock
counts in whole past seconds. A function passes its input on: its clock is that of the gates of its inputs, once it has
committed what they had written.
"""

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

from headrace.declare.operations.derived_stream import Derivation, DerivedStream, StreamOperation
from headrace.kafka.offsets import OffsetClient
from headrace.spark.checkpoints.checkpoint_files import committed_partition_offsets, committed_watermark_us
from headrace.spark.gate.gate_progress import GateProgressTracker
from headrace.spark.stateful.keyed_operator import TIMER_STEP_US, KeyedOperatorConfig
from headrace.spark.stateful.operation_query import OperationSpec
from headrace.spark.stateful.operation_versions import OperationVersion
from headrace.spark.stateful.query_clock import QueryClock, now_us

TIMER_TICK_US = 1000  # Spark fires timers before the watermark, not at it


@dataclass
class OperationChain:
    """The checkpoints of derivations, and the clock of each."""

    broker: str
    state_folder: Path
    versions: Mapping[str, OperationVersion] = field(default_factory=dict)
    _function_clocks: dict[str, Callable[[], int]] = field(default_factory=dict)

    def operation_spec(
        self, version: OperationVersion, outputs: Sequence[DerivedStream], changelog_partitions: int = 1
    ) -> OperationSpec:
        """The query spec of an operation, linked to the clocks of its upstream derivations."""
        config = KeyedOperatorConfig(
            version.operation_in_state_order, tuple(outputs), self.broker, changelog_partitions=changelog_partitions
        )
        upstream = OperationChain(
            self.broker, self.state_folder, self.versions
        )  # a separate instance: its state belongs to one thread
        return OperationSpec(
            config, version.checkpoint(self.state_folder), self.gate_checkpoint, upstream.clock_us, version.since_us
        )

    def gate_checkpoint(self, stream: str) -> Path:
        return self._checkpoints / stream / "gate"

    def clock_us(self, derivation: Derivation) -> int:
        """The time up to which a derivation has written its complete output; 0 before it has published one."""
        with suppress(OSError, ValueError):  # Spark cleans up meanwhile: the next call succeeds
            if isinstance(derivation, StreamOperation):
                watermark_us = committed_watermark_us(self.versions[derivation.name].checkpoint(self.state_folder))
                return max(0, watermark_us - TIMER_TICK_US) // TIMER_STEP_US * TIMER_STEP_US
            if derivation.name not in self._function_clocks:
                self._function_clocks[derivation.name] = self._function_clock(derivation)
            return self._function_clocks[derivation.name]()
        return 0

    def complete_until_us(self, inputs: Sequence[DerivedStream]) -> int:
        return min([now_us(), *(self.clock_us(stream.made_by) for stream in inputs)])

    def _function_clock(self, derivation: Derivation) -> Callable[[], int]:
        """The clock of a function, computed on request."""
        offsets, clocks_us = OffsetClient(self.broker), [0]
        derived_inputs = [stream for stream in derivation.inputs if isinstance(stream, DerivedStream)]
        gates = [
            GateProgressTracker(stream, offsets, self.gate_checkpoint(stream.name)) for stream in derivation.inputs
        ]
        clock = QueryClock(gates, offsets, (), lambda: self.complete_until_us(derived_inputs))

        def read_clock_us() -> int:
            clocks_us.append(
                clock.advance(committed_partition_offsets(self._checkpoints / derivation.name / "derive"))
                or clocks_us.pop()
            )
            return clocks_us[-1]

        return read_clock_us

    @property
    def _checkpoints(self) -> Path:
        return self.state_folder.resolve() / "checkpoints"
