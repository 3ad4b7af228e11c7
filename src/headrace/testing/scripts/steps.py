"""The steps of a script, and the hosts that play it."""

from collections.abc import Sequence
from typing import Any, NamedTuple, Protocol

from headrace.declare.operations.derived_stream import DerivedStream, StreamOperation
from headrace.errors import HeadraceError
from headrace.operators.operator import InputEvent

OutputRow = dict[str, Any]
RowsByOutput = dict[str, list[OutputRow]]  # by output; times in µs


class UnfitScript(HeadraceError):
    """A script has an impossible step, or reads an unknown output."""


class WatermarkStep(NamedTuple):
    """Everything that arrived before a time has been read."""

    at_us: int


class KillStep(NamedTuple):
    """The output since the last watermark is written, its commit is lost: it is processed again."""


ScriptStep = InputEvent | WatermarkStep | KillStep


class ScriptHost(Protocol):
    """A host that plays a script."""

    def play(
        self, operation: StreamOperation, outputs: Sequence[DerivedStream], steps: Sequence[ScriptStep]
    ) -> RowsByOutput:
        """The rows that were emitted, each once, by output."""
        ...
