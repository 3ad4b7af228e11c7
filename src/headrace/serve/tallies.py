"""How many requests each path has had, how they ended and how long they took."""

from collections import Counter

from headrace.store.delays import Delays

BOUNDS_SECONDS = (0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5)


class Tally:
    """The requests of one path."""

    __slots__ = ("delays", "statuses")

    def __init__(self) -> None:
        self.statuses: Counter[int] = Counter()
        self.delays = Delays(BOUNDS_SECONDS)

    def add(self, status: int, seconds: float) -> None:
        self.statuses[status] += 1
        self.delays.add(seconds)
