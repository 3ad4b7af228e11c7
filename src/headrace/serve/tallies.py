"""How many requests each path has had, how they ended and how long they took; how many events were scored."""

from collections import Counter
from collections.abc import Sequence

from headrace.declare.catalogue import REQUEST_SECONDS
from headrace.store.delays import Delays


class PredictionTally:
    """How many events of a model were scored over HTTP, and in how many something was missing."""

    __slots__ = ("degraded", "scored")

    def __init__(self) -> None:
        self.scored = 0
        self.degraded: Counter[str] = Counter()

    def add(self, degraded: Sequence[tuple[str, ...]]) -> None:
        """Count events by what each of them lacked."""
        self.scored += len(degraded)
        for lacking in degraded:
            if lacking:
                self.degraded.update(lacking)

    def add_all(self, other: "PredictionTally") -> None:
        """Take the counts of another process."""
        self.scored += other.scored
        self.degraded.update(other.degraded.copy())


class Tally:
    """The requests of one path."""

    __slots__ = ("delays", "statuses")

    def __init__(self) -> None:
        self.statuses: Counter[int] = Counter()
        self.delays = Delays(REQUEST_SECONDS)

    def add(self, status: int, seconds: float) -> None:
        self.statuses[status] += 1
        self.delays.add(seconds)

    def add_all(self, other: "Tally") -> None:
        """Take the counts of another process."""
        self.statuses.update(other.statuses.copy())
        self.delays.add_all(other.delays.counts.copy(), other.delays.total_seconds)
