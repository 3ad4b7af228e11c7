"""More requests than the server can answer: those that came too late to be answered soon are told to come back.

requests in line    ▪▪▪▪▪▪▪▪▪▪▪▪▪▪▪▪▪▪▪▪│▪▪▪▪▪▪▪▪▪▪▪▪▪
                    answered             │ have waited LONGEST_WAIT_S: 429, and their connections are not read
                                         │ for RETRY_SECONDS, so that refusing costs little

A pause of the machine is no overload: as long as few are in line, all are answered.
"""

from time import perf_counter
from typing import NamedTuple

from headrace.serve.answers import Refused

LONGEST_WAIT_S = 0.02
FEW_IN_LINE = 64
MOST_AT_WORK = 256
RETRY_SECONDS = 1


class Came(NamedTuple):
    """When a request came, and how many were in line before it."""

    at: float
    ahead: int


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

    turn of the event loop   ├ ▪ ▪ ▪ ▪ ▪ ▪ ▪ ▪ ▪ ▪ ┤      all of them lay in their sockets when it began: each has
                             began  answered  next        waited since then, and behind those answered in it already

    In line is whoever has begun to ask and is not answered; at work, whose answer is being made.
    """

    def __init__(self) -> None:
        self.in_line = self.at_work = 0
        self.turn_at: float | None = None
        self._answered = 0

    def begin_turn(self) -> None:
        """A turn of the event loop begins."""
        self.turn_at, self._answered = perf_counter(), 0

    def end_turn(self) -> None:
        """Who comes now comes in another turn."""
        self.turn_at = None

    def enter(self) -> Came:
        """One more is in line."""
        came = Came(self.turn_at or perf_counter(), self.in_line + self._answered)
        self.in_line += 1
        return came

    def leave(self, count: int) -> None:
        """So many are answered, or gone."""
        self.in_line -= count
        self._answered += count

    def require_room(self, came: Came, now: float) -> None:
        """Raise TooMany for a request that cannot be answered soon."""
        if self.at_work >= MOST_AT_WORK or (came.ahead > FEW_IN_LINE and now - came.at > LONGEST_WAIT_S):
            raise TooMany
