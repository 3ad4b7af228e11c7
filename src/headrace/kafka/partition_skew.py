"""Partition skew: the busiest partition of a topic against the mean, by recently appended records.

payments   ▇▇▇▇▇▇▇▇  partition 0      the busiest has 8 of 16 records, the mean is 4: a skew of 2
           ▇▇▇       partition 1
           ▇▇        partition 2
           ▇▇▇       partition 3
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from headrace.kafka.record import Partition


@dataclass(frozen=True)
class PartitionSkew:
    """A topic's partition count, the records of all partitions, and those of the busiest."""

    topic: str
    partitions: int
    records: int
    busiest: int
    share: float

    @property
    def skew(self) -> float:
        """The busiest partition's records as a multiple of the mean: 1 is even."""
        return self.share * self.partitions


def partition_skews(record_counts: Mapping[Partition, int], topics: Iterable[str]) -> list[PartitionSkew]:
    """The skew of each topic, by the records of each partition; a topic without records has none."""
    skews = (
        _partition_skew(
            topic, {partition.number: count for partition, count in record_counts.items() if partition.topic == topic}
        )
        for topic in topics
    )
    return [skew for skew in skews if skew is not None]


def _partition_skew(topic: str, record_counts: Mapping[int, int]) -> PartitionSkew | None:
    total = sum(record_counts.values())
    if not total:
        return None
    busiest = max(record_counts, key=lambda number: (record_counts[number], -number))
    return PartitionSkew(topic, len(record_counts), total, busiest, record_counts[busiest] / total)
