"""How far whoever reads the log is behind it: by query and partition, in records and in seconds.

position ├──── records ────┤ end            seconds: since the first look that saw the end beyond the position
"""

from collections import deque
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import NamedTuple

from headrace.log.catch_up import CatchUp, Look
from headrace.log.records import Partition

Reached = Mapping[str, Mapping[Partition, int]]  # the next offset of each partition that a query reads

MOST_LOOKS = 10_000
MOST_TOLD = 1000  # pairs of a query and a partition: what is told of them stays small, whatever is read


class Waiting:
    """When the records arrived that are still waiting: of each look, how many had arrived by then.

    arrived    10 ──── 20 ──── 30 ──── 40 now        25 are done: the oldest that waits came before the third look
    """

    def __init__(self) -> None:
        self._looks: deque[tuple[float, int]] = deque(maxlen=MOST_LOOKS)

    def add(self, arrived: int, waiting: int, now_s: float) -> float:
        """What is so at a look; for how long the oldest one has waited, at least."""
        if self._looks and arrived < self._looks[-1][1]:
            self._looks.clear()
        self._looks.append((now_s, arrived))
        while self._looks and self._looks[0][1] <= arrived - waiting:
            self._looks.popleft()
        return now_s - self._looks[0][0] if self._looks else 0.0


class Lag(NamedTuple):
    """What of one partition a query has not come to yet, and for how long the oldest of it has waited, at least."""

    query: str
    place: Partition
    records: int
    seconds: float


@dataclass(frozen=True)
class Behind:
    """The lags of a moment, and how long each query that is behind takes to catch up: infinity, where it does not."""

    lags: tuple[Lag, ...] = ()
    catch_up_s: Mapping[str, float] = field(default_factory=dict)
    at_s: float = 0.0

    def left_s(self, now_s: float) -> dict[str, float]:
        """How much of that is left at a later moment: who looks may be late where all are busy."""
        return {query: max(0.0, seconds - (now_s - self.at_s)) for query, seconds in self.catch_up_s.items()}

    @property
    def told(self) -> Sequence[Lag]:
        """As many as are told of: those farthest behind."""
        if len(self.lags) <= MOST_TOLD:
            return self.lags
        return sorted(self.lags, key=lambda lag: (-lag.seconds, -lag.records))[:MOST_TOLD]

    def seconds_of(self, query: str) -> float | None:
        """For how long the oldest record of any partition has waited; None of a query that is not known."""
        return self._longest_s.get(query)

    @cached_property
    def _longest_s(self) -> dict[str, float]:
        longest: dict[str, float] = {}
        for lag in self.lags:
            longest[lag.query] = max(lag.seconds, longest.get(lag.query, 0.0))
        return longest


class Lags:
    """Looks at queries again and again; one thread looks."""

    def __init__(self) -> None:
        self._waiting: dict[tuple[str, Partition], Waiting] = {}
        self._catching_up: dict[str, CatchUp] = {}

    def look(
        self, reached: Reached, ends: Mapping[Partition, int], now_s: float, by_steps: Collection[str] = ()
    ) -> Behind:
        """What is so now; a query or a partition that is gone is forgotten.

        Those that go by steps of minutes are given no estimate: between two of them they stand still.
        """
        lags = {query: self._lags(query, places, ends, now_s) for query, places in reached.items()}
        known = {(lag.query, lag.place) for of_query in lags.values() for lag in of_query}
        self._waiting = {one: waiting for one, waiting in self._waiting.items() if one in known}
        self._catching_up = {query: one for query, one in self._catching_up.items() if query in reached}
        estimates = {query: self._estimate(query, lags[query], ends, now_s) for query in lags if query not in by_steps}
        return Behind(
            tuple(lag for of_query in lags.values() for lag in of_query),
            {query: left for query, left in estimates.items() if left is not None},
            now_s,
        )

    def _lags(
        self, query: str, places: Mapping[Partition, int], ends: Mapping[Partition, int], now_s: float
    ) -> list[Lag]:
        known = [(place, min(offset, ends[place]), ends[place]) for place, offset in places.items() if place in ends]
        return [self._lag(query, place, offset, end, now_s) for place, offset, end in known]

    def _lag(self, query: str, place: Partition, offset: int, end: int, now_s: float) -> Lag:
        waiting = self._waiting.setdefault((query, place), Waiting())
        return Lag(query, place, end - offset, waiting.add(end, end - offset, now_s))

    def _estimate(self, query: str, lags: Sequence[Lag], ends: Mapping[Partition, int], now_s: float) -> float | None:
        came = sum(ends[lag.place] for lag in lags)
        look = Look(now_s, came, came - sum(lag.records for lag in lags))
        waited_s = max((lag.seconds for lag in lags), default=0.0)
        return self._catching_up.setdefault(query, CatchUp()).add(look, waited_s)
