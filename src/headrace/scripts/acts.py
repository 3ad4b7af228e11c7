"""What happens in a script, and where it can be played."""

from collections.abc import Sequence
from typing import Any, NamedTuple, Protocol

from headrace.declare.derivation import Derived, Operation
from headrace.errors import HeadraceError
from headrace.operators.operator import Arrived

Row = dict[str, Any]
Rows = dict[str, list[Row]]  # by output; times in µs


class UnfitScript(HeadraceError):
    """A script says something that cannot happen, or asks for what is not made."""


class Watermark(NamedTuple):
    """Everything that arrived before a time is here."""

    at_us: int


class Kill(NamedTuple):
    """What was made since the last watermark is written, and forgotten: it is done again."""


Act = Arrived | Watermark | Kill


class Host(Protocol):
    """Where a script is played."""

    def play(self, operation: Operation, outputs: Sequence[Derived], acts: Sequence[Act]) -> Rows:
        """Every row that was made, each once, by output."""
        ...
