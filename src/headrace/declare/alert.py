"""Alerts: what is watched, what it must not do, and for how long it may."""

import dataclasses
import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

from headrace.declare.catalogue import Sort
from headrace.declare.durations import duration_us
from headrace.declare.series import Objective, Series, Share
from headrace.declare.source_lines import Written, declaring_line
from headrace.errors import DeclarationError

SEVERITIES = ("page", "ticket")
KEEP = "keep"


class Watched(Protocol):
    """Whatever has a value over time: a number of the app, a share, an objective, a metric of a model."""

    @property
    def text(self) -> str:
        """What it is, in words."""


@dataclass(frozen=True, init=False)
class Alert:
    """Fires once a value has been above or below a limit for so long; resolved once it is back beyond `clear`.

    above=0.10, clear=0.05, for_="5m"

    0.10 ┄┄┄┄┄┄╭──────────╮┄┄┄┄┄┄┄┄┄┄
    0.05 ┄┄┄┄╭─╯┄┄┄┄┄┄┄┄┄┄╰──╮┄┄┄┄┄┄┄
         ok  │ pending │ firing │ ok
    """

    name: str
    on: Watched
    above: float | None
    below: float | None
    clear: float
    for_us: int
    severity: str
    silent_us: int | None
    why: str
    run: str
    written: Written = field(compare=False, repr=False)

    def __init__(
        self,
        name: str,
        *,
        on: Watched,
        above: float | None = None,
        below: float | None = None,
        clear: float | None = None,
        for_: str | None = None,
        severity: str = "ticket",
        segment: Mapping[str, str] | None = None,
        no_data: str = KEEP,
        why: str = "",
        run: str = "",
    ) -> None:
        where = _where(name)
        on = _watched(on, segment, where)
        if isinstance(on, Objective):
            above, clear = _burning(above, below, clear, where)
        limit = _limit(above, below, where)
        values = {
            "name": name,
            "on": on,
            "above": None if above is None else limit,
            "below": None if below is None else limit,
            "clear": limit if clear is None else _clear(clear, limit, above is not None, where),
            "for_us": 0 if for_ is None else duration_us(for_, f"{where}: for_"),
            "severity": _severity(severity, where),
            "silent_us": None if no_data == KEEP else duration_us(no_data, f'{where}: no_data (or "{KEEP}")'),
            "why": _words(why, "why", where),
            "run": _words(run, "run", where),
            "written": declaring_line(),
        }
        for setting, value in values.items():
            object.__setattr__(self, setting, value)

    @property
    def limit(self) -> float:
        return self.below if self.above is None else self.above  # type: ignore[return-value]  # one of them is given

    @property
    def group(self) -> str:
        """What it is about: alerts of one stream, view, model or sink are told together."""
        for label, value in _labels(self.on):
            if label in {"stream", "view", "model", "sink"}:
                return f"{label} {value}"
        return "the app"

    def is_breached(self, value: float) -> bool:
        return value < self.limit if self.above is None else value > self.limit

    def is_clear(self, value: float) -> bool:
        """Whether a value is far enough on the right side for a firing alert to be resolved."""
        return value >= self.clear if self.above is None else value <= self.clear


def _where(name: object) -> str:
    if not isinstance(name, str) or not name.strip() or len(name) > 100 or not name.isprintable():
        raise DeclarationError(f'Alert {name!r}: name it in at most 100 printable characters, such as "auc drop".')
    return f"Alert {name!r}"


def _watched(on: Any, segment: Mapping[str, str] | None, where: str) -> Any:
    if not isinstance(getattr(on, "text", None), str):
        raise DeclarationError(
            f'{where}: on={on!r} has no values. Write on=fraud.auc("1h"), on=hr.metric("headrace_lag", stream="…"), '
            "on=hr.share(…) or on=hr.Objective(…)."
        )
    if isinstance(on, Series) and on.sort is not Sort.LEVEL and on.over_us is None:
        raise DeclarationError(f'{where}: {on.text} only grows. Say over how long: hr.metric(…, over="5m").')
    return on if segment is None else _segmented(on, segment, where)


def _segmented(on: Any, segment: object, where: str) -> Any:
    if not dataclasses.is_dataclass(on) or "segment" not in {field.name for field in dataclasses.fields(on)}:
        raise DeclarationError(f"{where}: {on.text} has no segments. Leave segment= out.")
    if not isinstance(segment, Mapping) or not segment:
        raise DeclarationError(
            f'{where}: segment={segment!r}. Write a column and its value: segment={{"country": "FR"}}.'
        )
    return dataclasses.replace(on, segment=tuple(sorted(segment.items())))  # type: ignore[type-var]  # an instance


def _burning(above: object, below: object, clear: object, where: str) -> tuple[float, float]:
    """The value of an objective is how near it is to its nearest alarm, so the limit is 1."""
    if (above, below, clear) != (None, None, None):
        raise DeclarationError(
            f"{where}: an objective has its limits already. Leave above=, below= and clear= out; "
            "set allowed= and windows= of hr.Objective."
        )
    return 1.0, 0.9


def _limit(above: object, below: object, where: str) -> float:
    if (above is None) == (below is None):
        given = "neither above= nor below=" if above is None else "both above= and below="
        raise DeclarationError(f"{where}: {given}. Write one: above=0.1 or below=0.9.")
    return _number(below if above is None else above, "below" if above is None else "above", where)


def _number(value: Any, setting: str, where: str) -> float:
    if type(value) not in {int, float} or not math.isfinite(value):
        raise DeclarationError(f"{where}: {setting}={value!r}. Write a number, such as {setting}=0.9.")
    return float(value)


def _clear(clear: object, limit: float, is_above: bool, where: str) -> float:
    value = _number(clear, "clear", where)
    if (value > limit) if is_above else (value < limit):
        side, word = ("above", "at most") if is_above else ("below", "at least")
        raise DeclarationError(
            f"{where}: clear={clear!r} and {side}={limit:g}: it would be resolved while it fires. "
            f"Write clear= {word} {limit:g}."
        )
    return value


def _severity(severity: str, where: str) -> str:
    if severity not in SEVERITIES:
        raise DeclarationError(
            f'{where}: severity={severity!r}. Write "page" (somebody is woken) or "ticket" (somebody looks tomorrow).'
        )
    return severity


def _words(words: object, setting: str, where: str) -> str:
    if not isinstance(words, str):
        raise DeclarationError(f"{where}: {setting}={words!r}. Write a sentence, or leave it out.")
    return words


def _labels(on: Any) -> list[tuple[str, str]]:
    if isinstance(on, Series | Share | Objective):
        return [label for series in on.series for label in series.labels]
    model = getattr(on, "model", None)
    return [] if model is None else [("model", str(getattr(model, "name", model)))]
