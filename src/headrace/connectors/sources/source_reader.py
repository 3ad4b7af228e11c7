"""The interface of source readers: increasing message numbers, and reading after a given number."""

from collections.abc import Sequence
from typing import Any, NamedTuple, Protocol

from headrace.errors import HeadraceError


class SourceUnavailable(HeadraceError):
    """The source does not answer or rejects the connection: the bridge retries."""


class SourceConfigError(HeadraceError):
    """A bridge cannot read the source as it is configured: a user has to change that."""


class SourceMessage(NamedTuple):
    """One message: its number in the source, its value and its headers."""

    number: int
    value: bytes
    headers: Sequence[tuple[str, bytes]] = ()


class SourceReader(Protocol):
    """Reads one source, whose messages have increasing numbers."""

    def __init__(self, source: Any, name: str) -> None:
        """The declared source, or one split of it, and the name of the stream that it fills."""

    def open(self) -> str:
        """Connect, and return the source id; a source that was recreated, with new numbers, has another id."""

    def acknowledged_number(self) -> int:
        """The number up to which messages are acknowledged; 0 if there is none."""

    def read(self, after: int, max_messages: int) -> list[SourceMessage]:
        """The next messages after a number, in order and without gaps; waits, and returns none after a timeout."""

    def count_remaining(self) -> int:
        """The number of messages after the last one read."""

    def acknowledge(self, last_number: int) -> None:
        """Acknowledge all messages up to this number: our log has them."""

    def close(self) -> None:
        """Disconnect; the reader may be opened again."""
