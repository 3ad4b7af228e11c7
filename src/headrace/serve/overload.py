"""More requests than the server can answer: those that came too late to be answered soon are told to come back.

requests in line    ▪▪▪▪▪▪▪▪▪▪▪▪▪▪▪▪▪▪▪▪│▪▪▪▪▪▪▪▪▪▪▪▪▪
                    answered             │ have waited LONGEST_WAIT_S: 429, and their connections are not read
                                         │ for RETRY_SECONDS, so that refusing costs little

A pause of the machine is no overload: as long as few are in line, all are answered.
"""

from typing import Protocol

from headrace.serve.answers import Refused

LONGEST_WAIT_S = 0.02
FEW_IN_LINE = 64
MOST_AT_WORK = 256
RETRY_SECONDS = 1


class Connection(Protocol):
    """What a request came by: when it began, how many were in line before it, and a way to be left alone."""

    begun_at: float
    ahead: int

    def hold(self, seconds: float) -> None:
        """Read nothing for so long."""


class TooMany(Refused):
    """More requests than the server can answer."""

    status = 429
    headers = ((b"retry-after", b"%d" % RETRY_SECONDS),)

    def __init__(self) -> None:
        super().__init__(
            f"The server has more requests than it can answer. Ask again in {RETRY_SECONDS} s, or start another server."
        )


class Line:
    """Who is let in: at most so many at work at once, and nobody who has waited too long in a long line.

    In line is whoever has begun to ask and is not answered; at work, whose answer is being made.
    """

    def __init__(self) -> None:
        self.in_line = self.at_work = 0

    def require_room(self, connection: Connection | None, now: float) -> None:
        """Raise TooMany for a request that cannot be answered soon."""
        if self.at_work >= MOST_AT_WORK:
            raise TooMany
        if connection is not None and connection.ahead > FEW_IN_LINE and now - connection.begun_at > LONGEST_WAIT_S:
            raise TooMany
