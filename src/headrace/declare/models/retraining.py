"""Retraining: when a model is retrained, on which data, and how much better it must be to be promoted."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, get_args

from headrace.declare.durations import UNITS_US, duration_us
from headrace.errors import DeclarationError

ComparisonMetric = Literal["auc", "average_precision", "log_loss", "rmse", "mae"]
LOWER_IS_BETTER = frozenset({"log_loss", "rmse", "mae"})
SHORTEST_EVERY_US = UNITS_US["m"]


@dataclass(frozen=True, init=False)
class Retrain:
    """When a model is retrained: on a schedule, when an alert fires, or both; and when the new version is promoted.

    It is promoted if it is better by `better_by` on the latest labelled events, at least `at_least` of them, and in no
    segment worse by more than `worse_by`. A training that takes longer than `limit` is cancelled.
    """

    every_us: int | None
    when: tuple[str, ...]
    over_us: int | None
    by: ComparisonMetric
    better_by: float
    worse_by: float
    at_least: int
    limit_us: int

    def __init__(
        self,
        *,
        every: str | None = None,
        when: Sequence[str] = (),
        over: str | None = None,
        by: ComparisonMetric = "auc",
        better_by: float = 0.0,
        worse_by: float = 0.02,
        at_least: int = 200,
        limit: str = "1h",
    ) -> None:
        every_us = None if every is None else duration_us(every, "Retrain: every")
        if every_us is not None and every_us < SHORTEST_EVERY_US:
            raise DeclarationError(f'Retrain: every={every!r} is too often. Write "1m" or more, such as "7d".')
        if by not in get_args(ComparisonMetric):
            raise DeclarationError(
                f"Retrain: by={by!r} is not a metric. Write one of {', '.join(get_args(ComparisonMetric))}."
            )
        object.__setattr__(self, "every_us", every_us)
        object.__setattr__(self, "when", _validate_alert_names(when))
        object.__setattr__(self, "over_us", None if over is None else duration_us(over, "Retrain: over"))
        object.__setattr__(self, "by", by)
        object.__setattr__(self, "better_by", _validate_margin(better_by, "better_by"))
        object.__setattr__(self, "worse_by", _validate_margin(worse_by, "worse_by"))
        object.__setattr__(self, "at_least", _validate_at_least(at_least))
        object.__setattr__(self, "limit_us", duration_us(limit, "Retrain: limit"))


def _validate_alert_names(when: object) -> tuple[str, ...]:
    if not isinstance(when, list | tuple) or any(not isinstance(name, str) or not name for name in when):
        raise DeclarationError(f'Retrain: when={when!r}. Write the names of alerts: when=["auc drop"].')
    return tuple(when)


def _validate_margin(margin: object, setting: str) -> float:
    if type(margin) not in {int, float} or not (math.isfinite(margin) and margin >= 0):  # type: ignore[arg-type, operator]
        raise DeclarationError(f"Retrain: {setting}={margin!r}. Write a difference from 0 on, such as 0.01.")
    return float(margin)  # type: ignore[arg-type]


def _validate_at_least(at_least: object) -> int:
    if type(at_least) is not int or at_least < 1:
        raise DeclarationError(f"Retrain: at_least={at_least!r}. Write how many labelled events to compare on: 200.")
    return at_least
