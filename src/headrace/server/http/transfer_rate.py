"""The minimum rate at which a client must send a request or read a response.

bytes moved     ▪▪▪▪ ▪▪▪   ▪▪▪▪▪      ▪▪▪▪▪▪      no pause is longer than the stall timeout, and the mean is fast enough
                ├────── stall timeout ─────┼─── one second more for each MIN_BYTES_PER_SECOND that moved ───┤
"""

from dataclasses import dataclass, field

MIN_BYTES_PER_SECOND = 16 << 10


@dataclass(slots=True)
class TransferRate:
    """One transfer: its start time and position, the position at the last check, and the time of the last progress."""

    started_at: float
    start_position: int = 0
    position: int = field(init=False)
    last_progress_at: float = field(init=False)

    def __post_init__(self) -> None:
        self.position, self.last_progress_at = self.start_position, self.started_at

    def is_too_slow(self, now: float, position: int, stall_timeout_s: float) -> bool:
        """Whether nothing moved for longer than the stall timeout, or the whole transfer is too slow.

        >>> pace = TransferRate(started_at=0.0)
        >>> [pace.is_too_slow(at, byte, 10.0) for at, byte in [(9.0, 400_000), (18.0, 800_000), (29.0, 800_000)]]
        [False, False, True]
        """
        if position > self.position:
            self.position, self.last_progress_at = position, now
        is_stalled = now - self.last_progress_at > stall_timeout_s
        return (
            is_stalled
            or now - self.started_at > stall_timeout_s + (position - self.start_position) / MIN_BYTES_PER_SECOND
        )
