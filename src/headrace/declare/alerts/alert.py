"""Alerts: a watched value, its limit, and how long the value may be beyond it."""

import dataclasses
import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

from headrace.declare.alerts.alert_values import Objective, Series, Share
from headrace.declare.durations import duration_us
from headrace.declare.metric_family import MetricType
from headrace.declare.source_location import SourceLocation, locate_declaration
from headrace.errors import DeclarationError

SEVERITIES = ("page", "ticket")
KEEP_STATE = "keep"


class WatchedValue(Protocol):
    """A value over time that an alert can watch: a metric, a share, an objective, or a metric of a model."""

    @property
    def text(self) -> str:
        """The value as text."""


@dataclass(frozen=True, init=False)
class Alert:
    """Fires after a value has been above or below a limit for a duration; resolves once it is back beyond `clear`.

    above=0.10, clear=0.05, for_="5m"

    0.10 ┄┄┄┄┄┄╭──────────╮┄┄┄┄┄┄┄┄┄┄
    0.05 ┄┄┄┄╭─╯┄┄┄┄┄┄┄┄┄┄╰──╮┄┄┄┄┄┄┄
         ok  │ pending │ firing │ ok
    """

    name: str
    on: WatchedValue
    above: float | None
    below: float | None
    clear: float
    for_us: int
    severity: str
    no_data_us: int | None
    why: str
    run: str
    location: SourceLocation = field(compare=False, repr=False)

    def __init__(
        self,
        name: str,
        *,
        on: WatchedValue,
        above: float | None = None,
        below: float | None = None,
        clear: float | None = None,
        for_: str | None = None,
        severity: str = "ticket",
        segment: Mapping[str, str] | None = None,
        no_data: str = KEEP_STATE,
        why: str = "",
        run: str = "",
    ) -> None:
        where = _require_valid_name(name)
        on = _require_watched_value(on, segment, where)
        if isinstance(on, Objective):
            above, clear = _objective_thresholds(above, below, clear, where)
        limit = _parse_limit(above, below, where)
        values = {
            "name": name,
            "on": on,
            "above": None if above is None else limit,
            "below": None if below is None else limit,
            "clear": limit if clear is None else _parse_clear(clear, limit, above is not None, where),
            "for_us": 0 if for_ is None else duration_us(for_, f"{where}: for_"),
            "severity": _validate_severity(severity, where),
            "no_data_us": None
            if no_data == KEEP_STATE
            else duration_us(no_data, f'{where}: no_data (or "{KEEP_STATE}")'),
            "why": _validate_text(why, "why", where),
            "run": _validate_text(run, "run", where),
            "location": locate_declaration(),
        }
        for setting, value in values.items():
            object.__setattr__(self, setting, value)

    @property
    def limit(self) -> float:
        return self.below if self.above is None else self.above  # type: ignore[return-value]  # one of them is given

    @property
    def group(self) -> str:
        """The subject: alerts about one stream, view, model or sink are notified together."""
        for label, value in _labels_of(self.on):
            if label in {"stream", "view", "model", "sink"}:
                return f"{label} {value}"
        return "the app"

    def is_breached(self, value: float) -> bool:
        return value < self.limit if self.above is None else value > self.limit

    def is_clear(self, value: float) -> bool:
        """Whether a value is far enough on the right side of the limit to resolve a firing alert."""
        return value >= self.clear if self.above is None else value <= self.clear


def _require_valid_name(name: object) -> str:
    if not isinstance(name, str) or not name.strip() or len(name) > 100 or not name.isprintable():
        raise DeclarationError(f'Alert {name!r}: name it in at most 100 printable characters, such as "auc drop".')
    return f"Alert {name!r}"


def _require_watched_value(on: Any, segment: Mapping[str, str] | None, where: str) -> Any:
    if not isinstance(getattr(on, "text", None), str):
        raise DeclarationError(
            f'{where}: on={on!r} has no values. Write on=fraud.auc("1h"), on=hr.metric("headrace_lag", stream="…"), '
            "on=hr.share(…) or on=hr.Objective(…)."
        )
    if isinstance(on, Series) and on.metric_type is not MetricType.GAUGE and on.over_us is None:
        raise DeclarationError(f'{where}: {on.text} only grows. Say over how long: hr.metric(…, over="5m").')
    return on if segment is None else _with_segment(on, segment, where)


def _with_segment(on: Any, segment: object, where: str) -> Any:
    if not dataclasses.is_dataclass(on) or "segment" not in {field.name for field in dataclasses.fields(on)}:
        raise DeclarationError(f"{where}: {on.text} has no segments. Leave segment= out.")
    if not isinstance(segment, Mapping) or not segment:
        raise DeclarationError(
            f'{where}: segment={segment!r}. Write a column and its value: segment={{"country": "FR"}}.'
        )
    return dataclasses.replace(on, segment=tuple(sorted(segment.items())))  # type: ignore[type-var]  # an instance


def _objective_thresholds(above: object, below: object, clear: object, where: str) -> tuple[float, float]:
    """The value of an objective is its burn rate relative to the nearest threshold, so the limit is 1."""
    if (above, below, clear) != (None, None, None):
        raise DeclarationError(
            f"{where}: an objective has its limits already. Leave above=, below= and clear= out; "
            "set allowed= and windows= of hr.Objective."
        )
    return 1.0, 0.9


def _parse_limit(above: object, below: object, where: str) -> float:
    if (above is None) == (below is None):
        problem = "neither above= nor below=" if above is None else "both above= and below="
        raise DeclarationError(f"{where}: {problem}. Write one: above=0.1 or below=0.9.")
    return _parse_number(below if above is None else above, "below" if above is None else "above", where)


def _parse_number(value: Any, setting: str, where: str) -> float:
    if type(value) not in {int, float} or not math.isfinite(value):
        raise DeclarationError(f"{where}: {setting}={value!r}. Write a number, such as {setting}=0.9.")
    return float(value)


def _parse_clear(clear: object, limit: float, is_above: bool, where: str) -> float:
    value = _parse_number(clear, "clear", where)
    if (value > limit) if is_above else (value < limit):
        side, bound_text = ("above", "at most") if is_above else ("below", "at least")
        raise DeclarationError(
            f"{where}: clear={clear!r} and {side}={limit:g}: it would be resolved while it fires. "
            f"Write clear= {bound_text} {limit:g}."
        )
    return value


def _validate_severity(severity: str, where: str) -> str:
    if severity not in SEVERITIES:
        raise DeclarationError(
            f'{where}: severity={severity!r}. Write "page" (somebody is woken) or "ticket" (somebody looks tomorrow).'
        )
    return severity


def _validate_text(text: object, setting: str, where: str) -> str:
    if not isinstance(text, str):
        raise DeclarationError(f"{where}: {setting}={text!r}. Write a sentence, or leave it out.")
    return text


def _labels_of(on: Any) -> list[tuple[str, str]]:
    if isinstance(on, Series | Share | Objective):
        return [label for series in on.series for label in series.labels]
    model = getattr(on, "model", None)
    return [] if model is None else [("model", str(getattr(model, "name", model)))]
