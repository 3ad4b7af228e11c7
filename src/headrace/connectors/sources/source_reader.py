"""What a bridge asks of another log: numbers that grow, and reading on after one of them."""

from collections.abc import Sequence
from typing import Any, NamedTuple, Protocol

from headrace.errors import HeadraceError


class SourceUnavailable(HeadraceError):
    """The other log does not answer, or does not let us in: tried again until it does."""


class SourceConfigError(HeadraceError):
    """The other log is not what a bridge can read: somebody has to do something."""


class SourceMessage(NamedTuple):
    """One message: its number in the other log, and what it is."""

    number: int
    value: bytes
    headers: Sequence[tuple[str, bytes]] = ()


class SourceReader(Protocol):
    """Reads one log. `history` names it for good: another one of the same name, numbered anew, is another history."""

    def __init__(self, source: Any, name: str) -> None:
        """The source as it was declared, or one split of it, and the name of the stream that it becomes."""

    def open(self) -> str:
        """Reach it, and say whose numbers these are."""

    def acknowledged_number(self) -> int:
        """Up to which number it was told that ours has all; 0 where it was told nothing."""

    def read(self, after: int, max_messages: int) -> list[SourceMessage]:
        """What comes after a number, in order and without gaps, once there is something, or nothing after a while."""

    def count_remaining(self) -> int:
        """How many messages there are after the last that was read."""

    def acknowledge(self, last_number: int) -> None:
        """Our log has everything up to this number: it need not be given again."""

    def close(self) -> None:
        """Let go of it; it may be opened again."""
