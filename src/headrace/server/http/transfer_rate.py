"""How slowly a client may send a request or take an answer.

sent or taken   ▪▪▪▪ ▪▪▪   ▪▪▪▪▪      ▪▪▪▪▪▪      no pause is longer than the patience, the mean is fast enough
                ├──────── patience ───────┼─ one second more for each SLOWEST_BYTES_A_SECOND that moved ─┤
"""

from dataclasses import dataclass, field

MIN_BYTES_PER_SECOND = 16 << 10


@dataclass(slots=True)
class TransferRate:
    """One transfer: when it began and at which byte, where it was when last looked, and when it had last moved."""

    started_at: float
    start_position: int = 0
    position: int = field(init=False)
    last_progress_at: float = field(init=False)

    def __post_init__(self) -> None:
        self.position, self.last_progress_at = self.start_position, self.started_at

    def is_too_slow(self, now: float, position: int, stall_timeout_s: float) -> bool:
        """Whether nothing moved for longer than the patience, or all of it too slowly.

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
