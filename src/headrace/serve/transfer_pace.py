"""How slowly a client may send a request or take an answer.

sent or taken   ▪▪▪▪ ▪▪▪   ▪▪▪▪▪      ▪▪▪▪▪▪      no pause is longer than the patience, the mean is fast enough
                ├──────── patience ───────┼─ one second more for each SLOWEST_BYTES_A_SECOND that moved ─┤
"""

from dataclasses import dataclass, field

SLOWEST_BYTES_A_SECOND = 16 << 10


@dataclass(slots=True)
class TransferPace:
    """One transfer: when it began and at which byte, where it was when last looked, and when it had last moved."""

    since: float
    first: int = 0
    position: int = field(init=False)
    moved_at: float = field(init=False)

    def __post_init__(self) -> None:
        self.position, self.moved_at = self.first, self.since

    def is_too_slow(self, now: float, position: int, patience_s: float) -> bool:
        """Whether nothing moved for longer than the patience, or all of it too slowly.

        >>> pace = TransferPace(since=0.0)
        >>> [pace.is_too_slow(at, byte, 10.0) for at, byte in [(9.0, 400_000), (18.0, 800_000), (29.0, 800_000)]]
        [False, False, True]
        """
        if position > self.position:
            self.position, self.moved_at = position, now
        is_stuck = now - self.moved_at > patience_s
        return is_stuck or now - self.since > patience_s + (position - self.first) / SLOWEST_BYTES_A_SECOND
