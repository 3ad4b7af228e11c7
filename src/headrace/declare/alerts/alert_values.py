"""Values an alert can watch: metrics of /metrics, shares of two of them, and objectives."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from headrace.declare.durations import duration_text, duration_us
from headrace.declare.metric_catalog import METRIC_CATALOG
from headrace.declare.metric_family import MetricType
from headrace.errors import DeclarationError

DEFAULT_AT_LEAST = 20
OPTIONAL_LABELS = {"lane", "topic", "partition"}  # of a gauge: without them the value is the highest


@dataclass(frozen=True)
class Series:
    """One metric of a running app; samples that differ only in other labels are added up.

    A counter gives its increase in the last `over_us`, a histogram the number of delays longer than `slower_us`.
    Without a window it can only be used in shares and objectives.
    """

    name: str
    labels: tuple[tuple[str, str], ...]
    over_us: int | None = None
    slower_us: int | None = None

    @property
    def metric_type(self) -> MetricType:
        return METRIC_CATALOG[self.name].metric_type

    @property
    def series(self) -> tuple["Series", ...]:
        return (self,)

    @property
    def text(self) -> str:
        """The metric in Prometheus notation, and its window.

        >>> metric("headrace_lag", stream="payments").text
        'headrace_lag{stream="payments"}'
        >>> metric("headrace_apply_seconds", view="CardSpend", over="5m", slower="1s").text
        'headrace_apply_seconds{view="CardSpend"} slower than 1s, in 5m'
        """
        label_text = ", ".join(f'{name}="{value}"' for name, value in self.labels)
        slower = "" if self.slower_us is None else f" slower than {duration_text(self.slower_us)}"
        over = "" if self.over_us is None else f", in {duration_text(self.over_us)}"
        return f"{self.name}{f'{{{label_text}}}' if label_text else ''}{slower}{over}"


@dataclass(frozen=True)
class Share:
    """The ratio of one counter to another over a window; unknown where the total is less than `at_least`."""

    bad: Series
    total: Series
    over_us: int
    at_least: int

    @property
    def series(self) -> tuple[Series, ...]:
        return self.bad, self.total

    @property
    def text(self) -> str:
        return f"share of {self.bad.text} in {self.total.text}, in {duration_text(self.over_us)}"


@dataclass(frozen=True)
class BurnRate:
    """A multi-window burn rate: both windows must exceed it, the long one to show that it matters, the short one
    that it continues.
    """

    long_window_us: int
    short_window_us: int
    factor: float


# Google, The Site Reliability Workbook (2018), chapter 5, "Multiwindow, Multi-Burn-Rate Alerts", table 5-8, for a
# budget of 30 days: 2 % of it in an hour, 5 % in six hours, 10 % in three days; the short window is a twelfth.
DEFAULT_BURN_RATES = (
    BurnRate(3_600_000_000, 300_000_000, 14.4),
    BurnRate(21_600_000_000, 1_800_000_000, 6.0),
    BurnRate(259_200_000_000, 21_600_000_000, 1.0),
)


@dataclass(frozen=True, init=False)
class Objective:
    """A service-level objective: at most a share of one counter may be bad; alerts on the burn rate of that budget."""

    bad: Series
    total: Series
    allowed: float
    burn_rates: tuple[BurnRate, ...]
    at_least: int

    def __init__(
        self,
        bad: Series,
        total: Series,
        *,
        allowed: float,
        windows: Sequence[tuple[str, str, float]] | None = None,
        at_least: int = DEFAULT_AT_LEAST,
    ) -> None:
        _require_counts(bad, total, "Objective")
        if type(allowed) not in {int, float} or not 0 < allowed < 1:
            raise DeclarationError(
                f"Objective: allowed={allowed!r}. Write what share may be bad, between 0 and 1: allowed=0.01."
            )
        object.__setattr__(self, "bad", bad)
        object.__setattr__(self, "total", total)
        object.__setattr__(self, "allowed", float(allowed))
        object.__setattr__(
            self, "burn_rates", DEFAULT_BURN_RATES if windows is None else _parse_burn_rates(windows, allowed)
        )
        object.__setattr__(self, "at_least", _validate_at_least(at_least, "Objective"))

    @property
    def series(self) -> tuple[Series, ...]:
        return self.bad, self.total

    @property
    def text(self) -> str:
        return f"at most {self.allowed:.3%} of {self.total.text} {self.bad.text}"


def metric(name: str, *, over: str | None = None, slower: str | None = None, **labels: str) -> Series:
    """A metric of /metrics by its name and labels: `hr.metric("headrace_lag_seconds", stream="payments")`."""
    where = f"metric {name!r}"
    if name not in METRIC_CATALOG:
        similar_names = [
            known for known in METRIC_CATALOG if known.removesuffix("_total") == str(name).removesuffix("_total")
        ]
        raise DeclarationError(
            f"{where}: there is none. Write {_format_choices(similar_names or list(METRIC_CATALOG))}."
        )
    metric_type, known = METRIC_CATALOG[name].metric_type, METRIC_CATALOG[name].labels
    given_labels: Mapping[str, object] = labels
    for label, value in given_labels.items():
        if label not in known:
            raise DeclarationError(f"{where} has no label {label!r}. It has {', '.join(known) or 'none'}.")
        if not isinstance(value, str) or not value:
            raise DeclarationError(f'{where}: {label}={value!r}. Write its text: {label}="payments".')
    missing = [label for label in known if label not in labels and label not in OPTIONAL_LABELS]
    if metric_type is MetricType.GAUGE and missing:
        raise DeclarationError(f'{where} is a level of each {missing[0]}. Say which: {missing[0]}="…".')
    if metric_type is MetricType.GAUGE and over is not None:
        raise DeclarationError(f"{where} is a level, with no window. Leave over={over!r} out; for_= says for how long.")
    if metric_type is not MetricType.HISTOGRAM and slower is not None:
        raise DeclarationError(f"{where} counts no delays. Leave slower={slower!r} out.")
    return Series(
        name,
        tuple(sorted(labels.items())),
        None if over is None else duration_us(over, f"{where}: over"),
        None if slower is None else duration_us(slower, f"{where}: slower"),
    )


def share(bad: Series, *, of: Series, over: str, at_least: int = DEFAULT_AT_LEAST) -> Share:
    """The ratio of two counters: `hr.share(dead, of=arrived, over="5m")`."""
    _require_counts(bad, of, "share")
    return Share(bad, of, duration_us(over, "share: over"), _validate_at_least(at_least, "share"))


def _require_counts(bad: object, total: object, where: str) -> None:
    for series in (bad, total):
        if not isinstance(series, Series) or series.metric_type is MetricType.GAUGE or series.over_us is not None:
            raise DeclarationError(
                f"{where}: {getattr(series, 'text', series)!r} is no count. Write two counts without a window of "
                f"their own: "
                'hr.metric("headrace_events_total", stream="payments", fate="dead") and fate="in".'
            )


def _validate_at_least(at_least: object, where: str) -> int:
    if type(at_least) is not int or at_least < 1:
        raise DeclarationError(f"{where}: at_least={at_least!r}. Write of how many a share says something, such as 20.")
    return at_least


def _parse_burn_rates(windows: object, allowed: float) -> tuple[BurnRate, ...]:
    window_pairs = windows if isinstance(windows, list | tuple) else ()
    if not window_pairs or any(
        not isinstance(window_pair, tuple) or len(window_pair) != 3 for window_pair in window_pairs
    ):
        raise DeclarationError(
            f'Objective: windows={windows!r}. Write pairs of windows and a rate: windows=[("1h", "5m", 14.4)].'
        )
    return tuple(
        sorted(
            (_parse_burn_rate(*one, allowed=allowed) for one in window_pairs),
            key=lambda burn_rate: burn_rate.long_window_us,
        )
    )


def _parse_burn_rate(long: str, short: str, factor: float, *, allowed: float) -> BurnRate:
    burn_rate = BurnRate(duration_us(long, "Objective: windows"), duration_us(short, "Objective: windows"), factor)
    if burn_rate.short_window_us >= burn_rate.long_window_us:
        raise DeclarationError(f"Objective: windows have {long!r} and {short!r}. Write the longer one first.")
    if type(factor) not in {int, float} or factor <= 0 or factor * allowed >= 1:
        raise DeclarationError(
            f"Objective: {factor!r} times what is allowed ({allowed:g}) can never be reached. "
            f"Write a rate above 0 and below {1 / allowed:g}."
        )
    return burn_rate


def _format_choices(names: Sequence[str]) -> str:
    return names[0] if len(names) == 1 else f"one of {', '.join(names)}"
