"""More requests than the server can answer: those that came too late to be answered soon are told to come back.

requests in line    ▪▪▪▪▪▪▪▪▪▪▪▪▪▪▪▪▪▪▪▪│▪▪▪▪▪▪▪▪▪▪▪▪▪
                    answered             │ have waited LONGEST_WAIT_S: 429, and their connections are not read
                                         │ for RETRY_SECONDS, so that refusing costs little

A pause of the machine is no overload: as long as few are in line, all are answered.
"""

from time import perf_counter
from typing import NamedTuple

from headrace.server.http.responses import HttpError

MAX_WAIT_S = 0.02
QUEUE_THRESHOLD = 64
MAX_RUNNING = 256
RETRY_AFTER_SECONDS = 1


class RequestArrival(NamedTuple):
    """When a request came, and how many were in line before it."""

    arrived_at: float
    queued_ahead: int


class ServerOverloaded(HttpError):
    """More requests than the server can answer."""

    status = 429
    headers = ((b"retry-after", b"%d" % RETRY_AFTER_SECONDS),)

    def __init__(self) -> None:
        super().__init__(
            f"The server has more requests than it can answer. Ask again in {RETRY_AFTER_SECONDS} s, or start "
            f"another server."
        )


class AdmissionQueue:
    """Who is let in: at most so many at work at once, and nobody who has waited too long in a long line.

    turn of the event loop   ├ ▪ ▪ ▪ ▪ ▪ ▪ ▪ ▪ ▪ ▪ ┤      all of them lay in their sockets when it began: each has
                             began  answered  next        waited since then, and behind those answered in it already

    In line is whoever has begun to ask and is not answered; at work, whose answer is being made.
    """

    def __init__(self) -> None:
        self.unanswered = self.running = 0
        self.loop_turn_started_at: float | None = None
        self._answered_this_turn = 0

    def begin_loop_turn(self) -> None:
        """A turn of the event loop begins."""
        self.loop_turn_started_at, self._answered_this_turn = perf_counter(), 0

    def end_loop_turn(self) -> None:
        """Who comes now comes in another turn."""
        self.loop_turn_started_at = None

    def enqueue(self) -> RequestArrival:
        """One more is in line."""
        arrival = RequestArrival(
            self.loop_turn_started_at or perf_counter(), self.unanswered + self._answered_this_turn
        )
        self.unanswered += 1
        return arrival

    def dequeue(self, count: int) -> None:
        """So many are answered, or gone."""
        self.unanswered -= count
        self._answered_this_turn += count

    def require_capacity(self, arrival: RequestArrival, now: float) -> None:
        """Raise TooMany for a request that cannot be answered soon."""
        if self.running >= MAX_RUNNING or (
            arrival.queued_ahead > QUEUE_THRESHOLD and now - arrival.arrived_at > MAX_WAIT_S
        ):
            raise ServerOverloaded
