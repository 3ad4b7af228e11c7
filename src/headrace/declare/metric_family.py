"""A metric family: its type, unit, labels and bounds, and what is promised of it."""

from dataclasses import dataclass
from enum import Enum
from typing import TypedDict, Unpack

TOTAL_SUFFIX = "_total"
BASE_UNITS = ("seconds", "bytes")  # part of the metric's name; the others count things


class MetricType(Enum):
    """How a metric behaves: a gauge goes up and down, a counter only grows, a histogram counts delays by size."""

    GAUGE = "level"
    COUNTER = "count"
    HISTOGRAM = "delays"


@dataclass(frozen=True)
class GaugeLimit:
    """The limit of a gauge: alerts after it is exceeded for `for_`, resolves once the value is back at `clear`."""

    above: float | None = None
    below: float | None = None
    clear: float | None = None
    for_: str | None = None

    @property
    def text(self) -> str:
        """The limit as text.

        >>> GaugeLimit(above=60, for_="2m").text
        'at most 60, for 2m'
        """
        limit = f"at least {self.below:g}" if self.above is None else f"at most {self.above:g}"
        return limit if self.for_ is None else f"{limit}, for {self.for_}"


@dataclass(frozen=True)
class ErrorBudget:
    """The share of a counter that may be bad, alerted on by its burn rate, and the name of the bad outcome."""

    allowed_share: float
    bad_outcome: str

    @property
    def text(self) -> str:
        """The budget as text.

        >>> ErrorBudget(0.01, "dead").text
        'at most 1 % dead'
        """
        return f"at most {self.allowed_share * 100:g} % {self.bad_outcome}"


@dataclass(frozen=True)
class MetricFamily:
    """A metric with one sample for each combination of its labels; a histogram has one for each bucket bound."""

    name: str
    metric_type: MetricType
    unit: str
    help: str
    labels: tuple[str, ...] = ()
    bucket_bounds: tuple[float, ...] = ()
    objective: GaugeLimit | ErrorBudget | None = None
    has_history: bool = False  # the server keeps a day of history for the dashboard
    is_exported: bool = True  # on /metrics; otherwise only the alert watcher knows it

    @property
    def limit(self) -> GaugeLimit:
        """The limit of a gauge that has one."""
        if not isinstance(self.objective, GaugeLimit):
            raise TypeError(f"{self.name} has no limit")
        return self.objective

    @property
    def allowed_share(self) -> float:
        """The share that may be bad, of a counter with an error budget."""
        if not isinstance(self.objective, ErrorBudget):
            raise TypeError(f"{self.name} has no error budget")
        return self.objective.allowed_share


class MetricOptions(TypedDict, total=False):
    """Optional settings of a metric."""

    objective: GaugeLimit | ErrorBudget
    has_history: bool
    is_exported: bool


def gauge(name: str, unit: str, help_text: str, *labels: str, **options: Unpack[MetricOptions]) -> MetricFamily:
    return MetricFamily(f"headrace_{name}", MetricType.GAUGE, unit, help_text, labels, **options)


def counter(name: str, unit: str, help_text: str, *labels: str, **options: Unpack[MetricOptions]) -> MetricFamily:
    return MetricFamily(f"headrace_{name}{TOTAL_SUFFIX}", MetricType.COUNTER, unit, help_text, labels, **options)


def histogram(
    name: str, help_text: str, label: str, bounds: tuple[float, ...], **options: Unpack[MetricOptions]
) -> MetricFamily:
    return MetricFamily(f"headrace_{name}", MetricType.HISTOGRAM, "seconds", help_text, (label,), bounds, **options)
