"""Alert conditions and watched values as PromQL."""

from headrace.declare.alerts.alert import Alert, WatchedValue
from headrace.declare.alerts.alert_values import Objective, Series, Share
from headrace.declare.durations import UNITS_US
from headrace.declare.metric_catalog import METRIC_CATALOG
from headrace.declare.metric_family import MetricType


def alert_expression(alert: Alert) -> str | None:
    """The PromQL expression that has a result while an alert's condition holds; None where /metrics has no such value.

    >>> from headrace.declare.alerts.alert_values import metric
    >>> alert_expression(Alert("lag", on=metric("headrace_lag", stream="payments"), above=9))
    'max(headrace_lag{stream="payments"}) > 9'
    """
    if isinstance(alert.on, Objective):
        return _burn_rate_expression(alert.on)
    expression = value_expression(alert.on)
    comparison = "<" if alert.above is None else ">"
    return None if expression is None else f"{expression} {comparison} {alert.limit:g}"


def value_expression(watched: WatchedValue) -> str | None:
    """The PromQL expression for a value; None where /metrics has no such value.

    >>> from headrace.declare.alerts.alert_values import metric, share
    >>> dead, arrived = (metric("headrace_events_total", stream="p", fate=fate) for fate in ("dead", "in"))
    >>> value_expression(share(dead, of=arrived, over="5m"))  # doctest: +ELLIPSIS
    'sum(increase(headrace_events_total{fate="dead",stream="p"}[300s])) / (sum(increase(...[300s])) >= 20)'
    """
    match watched:
        case Series() if not METRIC_CATALOG[watched.name].is_exported:
            return None
        case Series(over_us=None):
            return f"max({_selector(watched)})"
        case Series():
            return _growth_expression(watched, watched.over_us or 0)
        case Share():
            return _share_expression(watched, watched.over_us)
    return None


def _burn_rate_expression(objective: Objective) -> str:
    """Any pair of windows in which both burn rates are too high."""
    pairs = [
        " and ".join(
            f"{_share_expression(objective, window_us)} > {burn.factor * objective.allowed:g}"
            for window_us in (burn.long_window_us, burn.short_window_us)
        )
        for burn in objective.burn_rates
    ]
    return " or ".join(f"({pair})" for pair in pairs)


def _share_expression(watched: Share | Objective, over_us: int) -> str:
    return (
        f"{_growth_expression(watched.bad, over_us)} / ({_growth_expression(watched.total, over_us)} >= "
        f"{watched.at_least})"
    )


def _growth_expression(series: Series, over_us: int) -> str:
    """The increase of a counter; of a histogram, all observations or those above a bound."""
    if series.metric_type is not MetricType.HISTOGRAM:
        return _increase_expression(series, "", over_us)
    count_expression = _increase_expression(series, "_count", over_us)
    if series.slower_us is None:
        return count_expression
    bound = min(
        bound for bound in METRIC_CATALOG[series.name].bucket_bounds if bound >= series.slower_us / UNITS_US["s"]
    )
    return f"({count_expression} - {_increase_expression(series, '_bucket', over_us, str(float(bound)))})"


def _increase_expression(series: Series, suffix: str, over_us: int, at_most: str | None = None) -> str:
    return f"sum(increase({_selector(series, suffix, at_most)}[{over_us // UNITS_US['s']}s]))"


def _selector(series: Series, suffix: str = "", at_most: str | None = None) -> str:
    labels = [f'{name}="{_escape_label_value(text)}"' for name, text in series.labels]
    labels += [] if at_most is None else [f'le="{at_most}"']
    return f"{series.name}{suffix}{{{','.join(labels)}}}" if labels else f"{series.name}{suffix}"


def _escape_label_value(text: str) -> str:
    return text.replace("\\", r"\\").replace('"', r"\"").replace("\n", r"\n")
