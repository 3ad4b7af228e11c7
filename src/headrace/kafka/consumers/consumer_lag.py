"""Consumer lag: by query and partition, in records and in seconds.

position ├──── records ────┤ end            seconds: since the first poll in which the end was beyond the position
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
MAX_REPORTED_LAGS = 1000  # pairs of a query and a partition: limits the size of reports


class OldestWaitTracker:
    """When waiting records arrived: for each poll, how many had arrived by then.

    arrived    10 ──── 20 ──── 30 ──── 40 now        25 are processed: the oldest that waits came before the third poll
    """

    def __init__(self) -> None:
        self._samples: deque[tuple[float, int]] = deque(maxlen=MAX_SAMPLES)

    def add_sample(self, arrived: int, waiting: int, now_s: float) -> float:
        """Add a poll; returns for how long the oldest record has waited, at least."""
        if self._samples and arrived < self._samples[-1][1]:
            self._samples.clear()
        self._samples.append((now_s, arrived))
        while self._samples and self._samples[0][1] <= arrived - waiting:
            self._samples.popleft()
        return now_s - self._samples[0][0] if self._samples else 0.0


class PartitionLag(NamedTuple):
    """The records of one partition that a query has not read, and for how long the oldest has waited, at least."""

    query: str
    partition: Partition
    records: int
    seconds: float


@dataclass(frozen=True)
class LagSnapshot:
    """The lags at a time, and how long each query with lag takes to catch up: infinity, where it does not."""

    lags: tuple[PartitionLag, ...] = ()
    catch_up_s: Mapping[str, float] = field(default_factory=dict)
    at_s: float = 0.0

    def remaining_catch_up_s(self, now_s: float) -> dict[str, float]:
        """The rest of the estimate at a later time, since a report may be delayed on a busy machine."""
        return {query: max(0.0, seconds - (now_s - self.at_s)) for query, seconds in self.catch_up_s.items()}

    @property
    def reported_lags(self) -> Sequence[PartitionLag]:
        """The largest lags, up to the limit of reports."""
        if len(self.lags) <= MAX_REPORTED_LAGS:
            return self.lags
        return sorted(self.lags, key=lambda lag: (-lag.seconds, -lag.records))[:MAX_REPORTED_LAGS]

    def longest_wait_s(self, query: str) -> float | None:
        """For how long the oldest record of any partition has waited; None for an unknown query."""
        return self._longest_waits_s.get(query)

    @cached_property
    def _longest_waits_s(self) -> dict[str, float]:
        longest_by_query: dict[str, float] = {}
        for lag in self.lags:
            longest_by_query[lag.query] = max(lag.seconds, longest_by_query.get(lag.query, 0.0))
        return longest_by_query


class LagTracker:
    """Measures the lag of queries repeatedly; used by one thread."""

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
        """The current lag; queries and partitions that are gone are forgotten.

        Queries that run in steps of minutes get no estimate, since they do not advance between two steps.
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
