"""What happens in a script, and where it can be played."""

from collections.abc import Sequence
from typing import Any, NamedTuple, Protocol

from headrace.declare.operations.operation import DerivedStream, StreamOperation
from headrace.errors import HeadraceError
from headrace.operators.operator import InputEvent

OutputRow = dict[str, Any]
RowsByOutput = dict[str, list[OutputRow]]  # by output; times in µs


class UnfitScript(HeadraceError):
    """A script says something that cannot happen, or asks for what is not made."""


class WatermarkStep(NamedTuple):
    """Everything that arrived before a time is here."""

    at_us: int


class KillStep(NamedTuple):
    """What was made since the last watermark is written, and forgotten: it is done again."""


ScriptStep = InputEvent | WatermarkStep | KillStep


class ScriptHost(Protocol):
    """Where a script is played."""

    def play(
        self, operation: StreamOperation, outputs: Sequence[DerivedStream], steps: Sequence[ScriptStep]
    ) -> RowsByOutput:
        """Every row that was made, each once, by output."""
        ...
