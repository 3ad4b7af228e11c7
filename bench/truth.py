"""The expected features of a card, counted from its payments."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from bench.app import CardSpend
from headrace.declare.features.view import Feature
from headrace.tiles.events.event_parser import Event

COUNTED: Mapping[str, Callable[[list[Any]], Any]] = {
    "count": len,
    "sum": lambda values: sum(values) if values else None,
    "max": lambda values: max(values, default=None),
    "distinct": lambda values: len(set(values)),
}
ROUNDING, SKETCHED = 1e-9, 0.05
Vector = Mapping[str, Any]


def vector(payments: Sequence[Event], at_us: int) -> Vector:
    """The features at a time."""
    return {feature.name: _counted(feature, payments, at_us) for feature in CardSpend.features}


def differences(answered: Vector, counted: Vector) -> list[str]:
    """The features that differ from the expected ones, with a tolerance for sketches."""
    near = {one.name: SKETCHED if one.aggregate.function == "distinct" else ROUNDING for one in CardSpend.features}
    return [
        f"{name} is {answered[name]} instead of {right}"
        for name, right in counted.items()
        if not _same(answered[name], right, near[name])
    ]


def _counted(feature: Feature, payments: Sequence[Event], at_us: int) -> Any:
    window, column = feature.window, feature.aggregate.column
    starts_after_us = at_us - window.length_us - window.hop_us
    within = [event for event in payments if starts_after_us < _start_us(event, window.hop_us) <= at_us]
    return COUNTED[feature.aggregate.function]([event[column] if column else None for event in within])


def _start_us(event: Event, hop_us: int) -> int:
    """The start of an event's tile."""
    return int(event["at"]) // hop_us * hop_us


def _same(found: Any, counted: Any, near: float) -> bool:
    if found is None or counted is None:
        return found is counted
    return bool(abs(found - counted) <= near * max(1, abs(counted)))
