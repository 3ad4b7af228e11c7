"""The catalogue's numbers as OTLP has them: gauges, sums that only grow, histograms; times in nanoseconds, as text.

/metrics     le="0.1" 4   le="0.5" 9   le="+Inf" 10      how many were at most so long
OTLP         bounds [0.1, 0.5]   counts [4, 5, 1]        how many were in between
"""

from collections.abc import Iterable, Iterator, Mapping
from math import isfinite, isinf
from typing import Any, NamedTuple

from headrace.declare.catalogue import CATALOGUE, Family, Sort
from headrace.watch.scrape import UP, Sample, Samples

CUMULATIVE = 2
UNITS = {"seconds": "s", "bytes": "By", "share": "1", "yes or no": "1"}  # as UCUM writes them
Labels = tuple[tuple[str, str], ...]


class Moment(NamedTuple):
    """A count as it was last told: since when it has grown, when that was, and how far it had come."""

    since_ns: int
    at_ns: int
    value: float


class Growth:
    """Knows since when each count has grown: since it was first seen, or since it was last more than it is now."""

    def __init__(self) -> None:
        self._before: dict[tuple[str, Labels], Moment] = {}
        self._now: dict[tuple[str, Labels], Moment] = {}

    def begin(self) -> None:
        """A new look: what was not told at the last one is forgotten."""
        self._before, self._now = self._now, {}

    def since_ns(self, name: str, labels: Labels, value: float, at_ns: int) -> int:
        """Since when a count has grown that is so much now."""
        before = self._before.get((name, labels), Moment(at_ns, at_ns, value))
        since_ns = before.at_ns if value < before.value else before.since_ns
        self._now[name, labels] = Moment(since_ns, at_ns, value)
        return since_ns


def metrics_of(samples: Samples | None, growth: Growth, at_ns: int) -> list[dict[str, Any]]:
    """Every number that was told; of a server that does not answer, just that."""
    growth.begin()
    told = {**(samples or {}), UP.name: [Sample({}, float(samples is not None))]}
    return [metric for family in CATALOGUE.values() if (metric := _metric(family, told, growth, at_ns))]


def _metric(family: Family, told: Samples, growth: Growth, at_ns: int) -> dict[str, Any] | None:
    match family.sort:
        case Sort.LEVEL:
            kind, points = "gauge", [_point(one, at_ns) for one in told.get(family.name, ())]
        case Sort.COUNT:
            kind, points = "sum", [*_counts(family.name, told, growth, at_ns)]
        case Sort.DELAYS:
            kind, points = "histogram", [*_histograms(family.name, told, growth, at_ns)]
    if not points:
        return None
    how = {} if kind == "gauge" else {"aggregationTemporality": CUMULATIVE}
    grows = {"isMonotonic": True} if kind == "sum" else {}
    described = {"name": family.name, "description": family.help, "unit": _unit(family)}
    return described | {kind: {"dataPoints": points, **how, **grows}}


def _unit(family: Family) -> str:
    return UNITS.get(family.unit, f"{{{family.unit}}}")


def _point(sample: Sample, at_ns: int) -> dict[str, Any]:
    return {"attributes": attributes(sample.labels), "timeUnixNano": str(at_ns), "asDouble": number(sample.value)}


def _counts(name: str, told: Samples, growth: Growth, at_ns: int) -> Iterator[dict[str, Any]]:
    for one in told.get(name, ()):
        since_ns = growth.since_ns(name, _key(one.labels), one.value, at_ns)
        yield _point(one, at_ns) | {"startTimeUnixNano": str(since_ns)}


def _histograms(name: str, told: Samples, growth: Growth, at_ns: int) -> Iterator[dict[str, Any]]:
    sums = {_key(one.labels): one.value for one in told.get(f"{name}_sum", ())}
    for labels, buckets in _buckets(told.get(f"{name}_bucket", ())).items():
        bounds = sorted(buckets)
        at_most = [buckets[bound] for bound in bounds]
        between = [now - before for now, before in zip(at_most, [0.0, *at_most], strict=False)]
        yield {
            "attributes": attributes(dict(labels)),
            "startTimeUnixNano": str(growth.since_ns(name, labels, at_most[-1], at_ns)),
            "timeUnixNano": str(at_ns),
            "count": str(int(at_most[-1])),
            "sum": number(sums[labels]),
            "bucketCounts": [str(int(count)) for count in between],
            "explicitBounds": bounds[:-1],
        }


def _buckets(samples: Iterable[Sample]) -> dict[Labels, dict[float, float]]:
    """How many were at most so long, by labels and bound, the last of which has no end."""
    found: dict[Labels, dict[float, float]] = {}
    for one in samples:
        labels = {name: value for name, value in one.labels.items() if name != "le"}
        found.setdefault(_key(labels), {})[float(one.labels["le"])] = one.value
    return found


def _key(labels: Mapping[str, str]) -> Labels:
    return tuple(sorted(labels.items()))


def attributes(labels: Mapping[str, str]) -> list[dict[str, Any]]:
    """Labels as OTLP has them."""
    return [{"key": name, "value": {"stringValue": value}} for name, value in labels.items()]


def number(value: float) -> float | str:
    """JSON has no infinity; protobuf's mapping has words for what JSON lacks.

    >>> number(1.5), number(float("-inf")), number(float("nan"))
    (1.5, '-Infinity', 'NaN')
    """
    if isfinite(value):
        return value
    return ("Infinity" if value > 0 else "-Infinity") if isinf(value) else "NaN"
