"""What alerts watch, as questions in Prometheus' language."""

from headrace.declare.alert import Alert, Watched
from headrace.declare.catalogue import CATALOGUE, Sort
from headrace.declare.durations import UNITS_US
from headrace.declare.series import Objective, Series, Share


def firing(alert: Alert) -> str | None:
    """The question whose answer is there while an alert's condition holds; None where /metrics cannot tell.

    >>> from headrace.declare.series import metric
    >>> firing(Alert("lag", on=metric("headrace_lag", stream="payments"), above=9))
    'max(headrace_lag{stream="payments"}) > 9'
    """
    if isinstance(alert.on, Objective):
        return _burning(alert.on)
    asked = value(alert.on)
    sign = "<" if alert.above is None else ">"
    return None if asked is None else f"{asked} {sign} {alert.limit:g}"


def value(watched: Watched) -> str | None:
    """The question for a value; None where /metrics cannot tell.

    >>> from headrace.declare.series import metric, share
    >>> dead, arrived = (metric("headrace_events_total", stream="p", fate=fate) for fate in ("dead", "in"))
    >>> value(share(dead, of=arrived, over="5m"))  # doctest: +ELLIPSIS
    'sum(increase(headrace_events_total{fate="dead",stream="p"}[300s])) / (sum(increase(...[300s])) >= 20)'
    """
    match watched:
        case Series() if not CATALOGUE[watched.name].is_told:
            return None
        case Series(over_us=None):
            return f"max({_named(watched)})"
        case Series():
            return _grown(watched, watched.over_us or 0)
        case Share():
            return _share(watched, watched.over_us)
    return None


def _burning(objective: Objective) -> str:
    """Of any pair of windows both lose too fast."""
    pairs = [
        " and ".join(
            f"{_share(objective, window_us)} > {burn.times * objective.allowed:g}"
            for window_us in (burn.long_us, burn.short_us)
        )
        for burn in objective.burns
    ]
    return " or ".join(f"({pair})" for pair in pairs)


def _share(of: Share | Objective, over_us: int) -> str:
    return f"{_grown(of.bad, over_us)} / ({_grown(of.total, over_us)} >= {of.at_least})"


def _grown(series: Series, over_us: int) -> str:
    """By how much a count grew; of delays, how many there were, or how many longer ones."""
    if series.sort is not Sort.DELAYS:
        return _increase(series, "", over_us)
    counted = _increase(series, "_count", over_us)
    if series.slower_us is None:
        return counted
    bound = min(bound for bound in CATALOGUE[series.name].bounds if bound >= series.slower_us / UNITS_US["s"])
    return f"({counted} - {_increase(series, '_bucket', over_us, str(float(bound)))})"


def _increase(series: Series, suffix: str, over_us: int, at_most: str | None = None) -> str:
    return f"sum(increase({_named(series, suffix, at_most)}[{over_us // UNITS_US['s']}s]))"


def _named(series: Series, suffix: str = "", at_most: str | None = None) -> str:
    labels = [f'{name}="{_escaped(text)}"' for name, text in series.labels]
    labels += [] if at_most is None else [f'le="{at_most}"']
    return f"{series.name}{suffix}{{{','.join(labels)}}}" if labels else f"{series.name}{suffix}"


def _escaped(text: str) -> str:
    return text.replace("\\", r"\\").replace('"', r"\"").replace("\n", r"\n")
