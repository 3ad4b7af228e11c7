"""Parses GET /metrics, and computes the totals and delays that the demo shows."""

import math
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from prometheus_client.parser import text_string_to_metric_families

Labels = tuple[tuple[str, str], ...]


@dataclass(frozen=True)
class Scrape:
    """The samples of one GET /metrics."""

    samples: dict[str, dict[Labels, float]]

    @classmethod
    def parse(cls, text: str) -> "Scrape":
        samples: dict[str, dict[Labels, float]] = defaultdict(dict)
        for family in text_string_to_metric_families(text):
            for sample in family.samples:
                samples[sample.name][tuple(sorted(sample.labels.items()))] = sample.value
        return cls(dict(samples))

    def since(self, earlier: "Scrape") -> "Scrape":
        """The increase of each sample since an earlier scrape."""
        return Scrape(
            {
                name: {labels: value - earlier.samples.get(name, {}).get(labels, 0) for labels, value in series.items()}
                for name, series in self.samples.items()
            }
        )

    def total(self, name: str, **labels: str) -> float:
        """The sum of a metric's samples with these labels."""
        return sum(self.by(name, "", **labels).values())

    def by(self, name: str, label: str, **labels: str) -> dict[str, float]:
        """The samples with these labels, summed by one more label."""
        wanted = set(labels.items())
        sums: dict[str, float] = defaultdict(float)
        for sample_labels, value in self.samples.get(name, {}).items():
            if wanted <= set(sample_labels):
                sums[dict(sample_labels).get(label, "")] += value
        return dict(sums)


@dataclass(frozen=True)
class Totals:
    """Counts of a stream's events per fate."""

    arrived: int
    clean: int
    late: int
    dropped: int
    duplicates: int
    dead: dict[str, int] = field(default_factory=dict)

    @classmethod
    def of(cls, scrape: Scrape, stream: str) -> "Totals":
        fates = defaultdict(float, scrape.by("headrace_events_total", "fate", stream=stream))
        dead = scrape.by("headrace_dead_total", "reason", stream=stream)
        return cls(
            arrived=int(fates["in"]),
            clean=int(fates["clean"]),
            late=int(fates["late"]),
            dropped=int(fates["dropped"]),
            duplicates=int(scrape.total("headrace_duplicates_total", stream=stream)),
            dead={reason: int(times) for reason, times in sorted(dead.items()) if times},
        )

    @property
    def judged(self) -> int:
        """The number of events that the gate has processed."""
        return self.clean + self.late + self.dropped + sum(self.dead.values())


@dataclass(frozen=True)
class Delay:
    """The median and the 99th percentile of a set of delays, in seconds."""

    p50: float
    p99: float
    count: int

    def __str__(self) -> str:
        return f"P50 {milliseconds(self.p50)}, P99 {milliseconds(self.p99)}"


def delay_of(seconds: Iterable[float]) -> Delay | None:
    """P50 and P99 of measured delays; None if there are none."""
    ranked = sorted(seconds)
    return Delay(percentile(ranked, 0.5), percentile(ranked, 0.99), len(ranked)) if ranked else None


def percentile(ranked: Sequence[float], share: float) -> float:
    """The smallest value that at least this share of the values does not exceed.

    >>> percentile([1, 2, 3, 4], 0.5), percentile([1, 2, 3, 4], 0.99)
    (2, 4)
    """
    return ranked[max(0, math.ceil(share * len(ranked)) - 1)]


def histogram_delay(scrape: Scrape, name: str) -> Delay | None:
    """P50 and P99 of a Prometheus histogram; None while it is empty."""
    buckets = sorted((float(bound), count) for bound, count in scrape.by(f"{name}_bucket", "le").items())
    if not buckets or not buckets[-1][1]:
        return None
    return Delay(_quantile(buckets, 0.5), _quantile(buckets, 0.99), int(buckets[-1][1]))


def _quantile(buckets: Sequence[tuple[float, float]], share: float) -> float:
    """The estimate of Prometheus: linear within a bucket, and the last finite bound in the last bucket."""
    rank = share * buckets[-1][1]
    low, below = 0.0, 0.0
    for bound, count in buckets:
        if count >= rank:
            return low if math.isinf(bound) else low + (bound - low) * (rank - below) / max(count - below, 1)
        low, below = bound, count
    return low


def milliseconds(seconds: float) -> str:
    """Format a delay with its unit.

    >>> milliseconds(0.0042), milliseconds(0.123), milliseconds(2.5)
    ('4.2 ms', '123 ms', '2.5 s')
    """
    if seconds >= 1:
        return f"{seconds:.1f} s"
    return f"{seconds * 1000:.1f} ms" if seconds < 0.01 else f"{seconds * 1000:.0f} ms"
