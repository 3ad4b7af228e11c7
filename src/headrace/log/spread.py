"""How evenly the partitions of topics are used: the busiest one against the mean, by what the log took lately.

payments   ▇▇▇▇▇▇▇▇  partition 0      the busiest has 8 of 16 records, the mean is 4: a skew of 2
           ▇▇▇       partition 1
           ▇▇        partition 2
           ▇▇▇       partition 3
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from headrace.log.records import Partition


@dataclass(frozen=True)
class Spread:
    """A topic's partitions, the records they took together, and what the busiest took of them."""

    topic: str
    partitions: int
    records: int
    busiest: int
    share: float

    @property
    def skew(self) -> float:
        """The busiest partition's records as a multiple of the mean: 1 is even."""
        return self.share * self.partitions


def spreads(added: Mapping[Partition, int], topics: Iterable[str]) -> list[Spread]:
    """The spread of each topic, by the records each partition took; of a topic that took none there is none."""
    found = (_spread(topic, {at.number: n for at, n in added.items() if at.topic == topic}) for topic in topics)
    return [one for one in found if one is not None]


def _spread(topic: str, records: Mapping[int, int]) -> Spread | None:
    total = sum(records.values())
    if not total:
        return None
    busiest = max(records, key=lambda number: (records[number], -number))
    return Spread(topic, len(records), total, busiest, records[busiest] / total)
