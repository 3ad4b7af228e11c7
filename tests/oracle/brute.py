"""The oracle: features by their definition, in loops over raw events; only the declarations are shared."""

import math
import statistics
from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple

from headrace.declare.stream import Stream
from headrace.declare.views import Feature, View
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


class Expected(NamedTuple):
    """The value of a feature, times in µs; and Σ|x|, by which the rounding of doubles is measured."""

    value: Any
    scale: float


def features(view: View, events: Iterable[dict[str, Any]], entity: tuple[Any, ...], at_us: int) -> dict[str, Expected]:
    """Each feature of an entity at a time."""
    own = [event for event in events if tuple(event[name] for name in view.by) == entity]
    return {feature.name: _feature(view, feature, own, at_us) for feature in view.features}


def taken(view: View, feature: Feature, own: Iterable[dict[str, Any]], at_us: int) -> list[dict[str, Any]]:
    """The entity's events that a feature counts: in the window, of the condition, with a value."""
    aggregate, window = feature.aggregate, feature.window
    events = []
    for event in own:
        start_us = event[view.stream.time] - event[view.stream.time] % window.hop_us
        if not at_us - window.length_us - window.hop_us < start_us <= at_us:
            continue
        fits = aggregate.where is None or value_of(aggregate.where, event, view.stream.schema) is True
        if fits and (aggregate.column is None or event[aggregate.column] is not None):
            events.append(event)
    return events


def _feature(view: View, feature: Feature, own: list[dict[str, Any]], at_us: int) -> Expected:
    events = taken(view, feature, own, at_us)
    function, column = feature.aggregate.function, feature.aggregate.column
    if column is None:
        return Expected(len(events), 0.0)
    events.sort(key=lambda event: (event[view.stream.time], event[view.stream.id]))
    values = [event[column] for event in events]
    return Expected(_of_values(function, values), _scale(values))


def _scale(values: list[Any]) -> float:
    return math.fsum(abs(value) for value in values if type(value) in (int, float) and math.isfinite(value))


def _of_values(function: str, values: list[Any]) -> Any:
    if function == "distinct":
        return len(set(values))
    if len(values) < (2 if function == "stddev" else 1):
        return None
    return _STATISTICS[function](values)


def total(values: Sequence[Any]) -> Any:
    """The sum: exact for integers, rounded once for doubles."""
    if isinstance(values[0], int):
        return sum(values)
    if all(map(math.isfinite, values)):
        return math.fsum(values)
    return sum(value for value in values if not math.isfinite(value))


def _stddev(values: list[Any]) -> float:
    return statistics.stdev(values) if all(map(math.isfinite, values)) else math.nan


_STATISTICS: dict[str, Callable[[list[Any]], Any]] = {
    "first": lambda values: values[0],
    "last": lambda values: values[-1],
    "sum": total,
    "mean": lambda values: total(values) / len(values),
    "stddev": _stddev,
    "min": lambda values: min(values, key=ranked),
    "max": lambda values: max(values, key=ranked),
}
