"""The oracle: features by their definition, in loops over raw events; it shares only the declarations."""

import math
import statistics
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from headrace.aggregates.aggregate_function import aggregate_function
from headrace.declare.features.view import Feature, View
from headrace.declare.streams.stream import Stream
from tests.oracle.rowwise import ranked, value_of
from tests.oracle.streams import Sent


def fate(stream: Stream, one: Sent) -> str:
    """What the gate must make of a record: clean, late, dropped, or the code of its flaw."""
    if one.flaw:
        return one.flaw
    if one.arrival_us - one.values[stream.time] > stream.late.until_us:
        return "dropped" if stream.late.then == "drop" else "late"
    return "clean"


def counted(stream: Stream, arriving: Iterable[Sent]) -> list[dict[str, Any]]:
    """The events that count: the clean ones, and of one id the first to arrive."""
    seen: set[Any] = set()
    events = []
    for one in arriving:
        if fate(stream, one) == "clean" and one.values[stream.id] not in seen:
            seen.add(one.values[stream.id])
            events.append(one.values)
    return events


def united(view: View, counted_by_stream: Mapping[str, Iterable[dict[str, Any]]]) -> list[dict[str, Any]]:
    """The events of several streams as one: each with every column, null where its stream has none, and its stream."""
    columns = {column.name for stream in view.streams for column in stream.schema}
    return [
        dict.fromkeys(columns) | event | {"stream": name}
        for name, events in counted_by_stream.items()
        for event in events
    ]


def order_of(view: View, event: dict[str, Any]) -> tuple[Any, ...]:
    """By time, then id, then the name of the stream."""
    stream = stream_of(view, event)
    return event[stream.time], event[stream.id], stream.name


def time_of(view: View, event: dict[str, Any]) -> int:
    return int(event[stream_of(view, event).time])


def stream_of(view: View, event: dict[str, Any]) -> Stream:
    (stream,) = [one for one in view.streams if len(view.streams) == 1 or one.name == event["stream"]]
    return stream


class Expected(NamedTuple):
    """The value of a feature, times in µs; Σ|x|, to measure rounding; and what a quantile may be by its error."""

    value: Any
    scale: float
    within: tuple[float, float] | None = None


def features(view: View, events: Iterable[dict[str, Any]], entity: tuple[Any, ...], at_us: int) -> dict[str, Expected]:
    """Each feature of an entity at a time."""
    own = [event for event in events if tuple(event[name] for name in view.by) == entity]
    return {feature.name: _feature(view, feature, own, at_us) for feature in view.features}


def taken(view: View, feature: Feature, own: Iterable[dict[str, Any]], at_us: int) -> list[dict[str, Any]]:
    """The entity's events that a feature counts: in the window, of the condition, with a value."""
    aggregate, window = feature.aggregate, feature.window
    events = []
    for event in own:
        start_us = time_of(view, event) - time_of(view, event) % window.hop_us
        if not at_us - window.length_us - window.hop_us < start_us <= at_us:
            continue
        fits = aggregate.where is None or value_of(aggregate.where, event, view.schema) is True
        if fits and (aggregate.column is None or event[aggregate.column] is not None):
            events.append(event)
    return events


def _feature(view: View, feature: Feature, own: list[dict[str, Any]], at_us: int) -> Expected:
    events = taken(view, feature, own, at_us)
    function, column = feature.aggregate.function, feature.aggregate.column
    if column is None:
        return Expected(len(events), 0.0)
    events.sort(key=lambda event: order_of(view, event))
    values = [event[column] for event in events]
    if function == "quantile":
        return _quantile(values, feature.aggregate.share or 0.0, feature.aggregate.error or 0.0)
    if function == "top":
        return Expected(_top(values, feature.aggregate.k or 0), 0.0)
    if function == "count_by":
        return Expected(dict(_by_frequency(values)), 0.0)
    if function == "ewm":
        ages_us = [time_of(view, event) - time_of(view, events[-1]) for event in events]
        return _ewm(values, [2.0 ** (age_us / (feature.aggregate.halflife_us or 1)) for age_us in ages_us])
    if function not in _KNOWN:  # a function with its own definition in plain Python
        return Expected(aggregate_function(function).by_definition(values), 1.0)
    squared = [value * value for value in values] if function == "var" else values
    return Expected(_of_values(function, values), _scale(squared))


def _scale(values: list[Any]) -> float:
    return math.fsum(abs(value) for value in values if type(value) in (int, float) and math.isfinite(value))


def _of_values(function: str, values: list[Any]) -> Any:
    if function == "distinct":
        return len(set(values))
    if len(values) < (2 if function in {"stddev", "var"} else 1):
        return None
    return _STATISTICS[function](values)


def total(values: Sequence[Any]) -> Any:
    """The sum: exact for integers, rounded once for doubles."""
    if isinstance(values[0], int):
        return sum(values)
    if all(map(math.isfinite, values)):
        return math.fsum(values)
    return sum(value for value in values if not math.isfinite(value))


def _quantile(values: list[Any], share: float, error: float) -> Expected:
    """By its definition, in order, without NaN. Almost all values keep twice the stated error."""
    ordered = sorted(float(value) for value in values if not math.isnan(value))
    if not ordered:
        return Expected(None, 0.0)
    ranks = [
        math.ceil(min(1.0, max(0.0, near)) * len(ordered)) for near in (share, share - 2 * error, share + 2 * error)
    ]
    exact, low, high = (ordered[max(1, rank) - 1] for rank in ranks)
    return Expected(exact, 0.0, (low, high))


def _top(values: list[Any], k: int) -> list[Any] | None:
    return [value for value, _ in _by_frequency(values)[:k]] or None


def _by_frequency(values: list[Any]) -> list[tuple[Any, int]]:
    return sorted(Counter(values).items(), key=lambda item: (-item[1], item[0]))


def _ewm(values: list[Any], weights: list[float]) -> Expected:
    """Weighted by their age; what is not finite is what it is, however old."""
    if not values:
        return Expected(None, 0.0)
    endless = [float(value) for value in values if not math.isfinite(value)]
    weighted = [value * weight for value, weight in zip(values, weights, strict=True) if math.isfinite(value)]
    mean = sum(endless) if endless else math.fsum(weighted) / math.fsum(weights)
    return Expected(mean, _scale(weighted) / math.fsum(weights))


def _var(values: list[Any]) -> float:
    return float(statistics.variance(values)) if all(map(math.isfinite, values)) else math.nan


def _stddev(values: list[Any]) -> float:
    return statistics.stdev(values) if all(map(math.isfinite, values)) else math.nan


_STATISTICS: dict[str, Callable[[list[Any]], Any]] = {
    "first": lambda values: values[0],
    "last": lambda values: values[-1],
    "sum": total,
    "mean": lambda values: total(values) / len(values),
    "stddev": _stddev,
    "var": _var,
    "min": lambda values: min(values, key=ranked),
    "max": lambda values: max(values, key=ranked),
}
_KNOWN = {"distinct", *_STATISTICS}
