"""How far whoever reads the log is behind it: by query and partition, in records and in seconds.

position ├──── records ────┤ end            seconds: since the first look that saw the end beyond the position
"""

from collections import deque
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import NamedTuple

from headrace.kafka.consumers.catch_up_estimate import CatchUpEstimator, LagSample
from headrace.kafka.record import Partition

QueryOffsets = Mapping[str, Mapping[Partition, int]]  # the next offset of each partition that a query reads

MAX_SAMPLES = 10_000
MAX_REPORTED_LAGS = 1000  # pairs of a query and a partition: what is told of them stays small, whatever is read


class OldestWaitTracker:
    """When the records arrived that are still waiting: of each look, how many had arrived by then.

    arrived    10 ──── 20 ──── 30 ──── 40 now        25 are done: the oldest that waits came before the third look
    """

    def __init__(self) -> None:
        self._samples: deque[tuple[float, int]] = deque(maxlen=MAX_SAMPLES)

    def add_sample(self, arrived: int, waiting: int, now_s: float) -> float:
        """What is so at a look; for how long the oldest one has waited, at least."""
        if self._samples and arrived < self._samples[-1][1]:
            self._samples.clear()
        self._samples.append((now_s, arrived))
        while self._samples and self._samples[0][1] <= arrived - waiting:
            self._samples.popleft()
        return now_s - self._samples[0][0] if self._samples else 0.0


class PartitionLag(NamedTuple):
    """What of one partition a query has not come to yet, and for how long the oldest of it has waited, at least."""

    query: str
    partition: Partition
    records: int
    seconds: float


@dataclass(frozen=True)
class LagSnapshot:
    """The lags of a moment, and how long each query that is behind takes to catch up: infinity, where it does not."""

    lags: tuple[PartitionLag, ...] = ()
    catch_up_s: Mapping[str, float] = field(default_factory=dict)
    at_s: float = 0.0

    def remaining_catch_up_s(self, now_s: float) -> dict[str, float]:
        """How much of that is left at a later moment: who looks may be late where all are busy."""
        return {query: max(0.0, seconds - (now_s - self.at_s)) for query, seconds in self.catch_up_s.items()}

    @property
    def reported_lags(self) -> Sequence[PartitionLag]:
        """As many as are told of: those farthest behind."""
        if len(self.lags) <= MAX_REPORTED_LAGS:
            return self.lags
        return sorted(self.lags, key=lambda lag: (-lag.seconds, -lag.records))[:MAX_REPORTED_LAGS]

    def longest_wait_s(self, query: str) -> float | None:
        """For how long the oldest record of any partition has waited; None of a query that is not known."""
        return self._longest_waits_s.get(query)

    @cached_property
    def _longest_waits_s(self) -> dict[str, float]:
        longest_by_query: dict[str, float] = {}
        for lag in self.lags:
            longest_by_query[lag.query] = max(lag.seconds, longest_by_query.get(lag.query, 0.0))
        return longest_by_query


class LagTracker:
    """Looks at queries again and again; one thread looks."""

    def __init__(self) -> None:
        self._wait_trackers: dict[tuple[str, Partition], OldestWaitTracker] = {}
        self._estimators: dict[str, CatchUpEstimator] = {}

    def take_snapshot(
        self,
        query_offsets: QueryOffsets,
        end_offsets: Mapping[Partition, int],
        now_s: float,
        stepwise_queries: Collection[str] = (),
    ) -> LagSnapshot:
        """What is so now; a query or a partition that is gone is forgotten.

        Those that go by steps of minutes are given no estimate: between two of them they stand still.
        """
        lags = {
            query: self._query_lags(query, next_offsets, end_offsets, now_s)
            for query, next_offsets in query_offsets.items()
        }
        known_pairs = {(lag.query, lag.partition) for query_lags in lags.values() for lag in query_lags}
        self._wait_trackers = {key: tracker for key, tracker in self._wait_trackers.items() if key in known_pairs}
        self._estimators = {query: one for query, one in self._estimators.items() if query in query_offsets}
        estimates = {
            query: self._estimate_catch_up_s(query, lags[query], end_offsets, now_s)
            for query in lags
            if query not in stepwise_queries
        }
        return LagSnapshot(
            tuple(lag for of_query in lags.values() for lag in of_query),
            {query: estimate for query, estimate in estimates.items() if estimate is not None},
            now_s,
        )

    def _query_lags(
        self, query: str, next_offsets: Mapping[Partition, int], end_offsets: Mapping[Partition, int], now_s: float
    ) -> list[PartitionLag]:
        positions = [
            (partition, min(offset, end_offsets[partition]), end_offsets[partition])
            for partition, offset in next_offsets.items()
            if partition in end_offsets
        ]
        return [self._partition_lag(query, place, offset, end, now_s) for place, offset, end in positions]

    def _partition_lag(self, query: str, partition: Partition, offset: int, end: int, now_s: float) -> PartitionLag:
        tracker = self._wait_trackers.setdefault((query, partition), OldestWaitTracker())
        return PartitionLag(query, partition, end - offset, tracker.add_sample(end, end - offset, now_s))

    def _estimate_catch_up_s(
        self, query: str, lags: Sequence[PartitionLag], end_offsets: Mapping[Partition, int], now_s: float
    ) -> float | None:
        arrived = sum(end_offsets[lag.partition] for lag in lags)
        sample = LagSample(now_s, arrived, arrived - sum(lag.records for lag in lags))
        oldest_wait_s = max((lag.seconds for lag in lags), default=0.0)
        return self._estimators.setdefault(query, CatchUpEstimator()).add_sample(sample, oldest_wait_s)
