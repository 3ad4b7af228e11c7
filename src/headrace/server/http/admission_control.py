"""Admission control: an overloaded server rejects the requests that have waited too long with 429 and Retry-After.

queued requests     ▪▪▪▪▪▪▪▪▪▪▪▪▪▪▪▪▪▪▪▪│▪▪▪▪▪▪▪▪▪▪▪▪▪
                    answered             │ have waited MAX_WAIT_S: 429, and their connections are not read
                                         │ for RETRY_AFTER_SECONDS, so that rejecting is cheap

A pause of the machine is not an overload: while the queue is short, all requests are answered.
"""

from time import perf_counter
from typing import NamedTuple

from headrace.server.http.responses import HttpError

MAX_WAIT_S = 0.02
QUEUE_THRESHOLD = 64
MAX_RUNNING = 256
RETRY_AFTER_SECONDS = 1


class RequestArrival(NamedTuple):
    """The arrival time of a request, and the number of requests queued before it."""

    arrived_at: float
    queued_ahead: int


class ServerOverloaded(HttpError):
    """The server has more requests than it can answer."""

    status = 429
    headers = ((b"retry-after", b"%d" % RETRY_AFTER_SECONDS),)

    def __init__(self) -> None:
        super().__init__(
            f"The server has more requests than it can answer. Ask again in {RETRY_AFTER_SECONDS} s, or start "
            f"another server."
        )


class AdmissionQueue:
    """Admits requests: at most MAX_RUNNING run at once, and none that has waited too long in a long queue.

    turn of the event loop   ├ ▪ ▪ ▪ ▪ ▪ ▪ ▪ ▪ ▪ ▪ ┤      all requests were in their sockets when the turn began: each
                             began  answered  next        has waited since then, behind those answered in this turn

    `unanswered` counts requests that have arrived and have no response yet; `running` counts those in a handler.
    """

    def __init__(self) -> None:
        self.unanswered = self.running = 0
        self.loop_turn_started_at: float | None = None
        self._answered_this_turn = 0

    def begin_loop_turn(self) -> None:
        """Start a turn of the event loop."""
        self.loop_turn_started_at, self._answered_this_turn = perf_counter(), 0

    def end_loop_turn(self) -> None:
        """End the turn: later requests belong to another one."""
        self.loop_turn_started_at = None

    def enqueue(self) -> RequestArrival:
        """Add a request to the queue; its arrival."""
        arrival = RequestArrival(
            self.loop_turn_started_at or perf_counter(), self.unanswered + self._answered_this_turn
        )
        self.unanswered += 1
        return arrival

    def dequeue(self, count: int) -> None:
        """Remove `count` requests that are answered, or whose connection is closed."""
        self.unanswered -= count
        self._answered_this_turn += count

    def require_capacity(self, arrival: RequestArrival, now: float) -> None:
        """Raise ServerOverloaded for a request that cannot be answered soon."""
        if self.running >= MAX_RUNNING or (
            arrival.queued_ahead > QUEUE_THRESHOLD and now - arrival.arrived_at > MAX_WAIT_S
        ):
            raise ServerOverloaded
