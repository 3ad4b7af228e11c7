"""Declared alerts: one that cannot work fails at import, with the remedy."""

from collections.abc import Callable
from dataclasses import dataclass
from types import ModuleType
from typing import Any

import pytest

import headrace as hr
from headrace.declare.alerts.alert_values import DEFAULT_BURN_RATES
from headrace.declare.app import build_app

payments = hr.Stream(
    "payments", schema="id string, card string, amount double, at timestamp", id="id", key="card", time="at"
)
LAG = hr.metric("headrace_lag_seconds", stream="payments")
DEAD = hr.metric("headrace_events_total", stream="payments", fate="dead")
ARRIVED = hr.metric("headrace_events_total", stream="payments", fate="in")


@dataclass(frozen=True)
class Metric:
    """As a model's metric looks to an alert."""

    model: str
    segment: tuple[tuple[str, str], ...] = ()
    text: str = "auc of fraud, 1h"


def alert(**settings: Any) -> hr.Alert:
    return hr.Alert(settings.pop("name", "lag"), **({"on": LAG, "above": 60} | settings))


def module_of(**names: Any) -> ModuleType:
    module = ModuleType("shop")
    vars(module).update(payments=payments, **names)
    return module


def test_an_alert_is_a_value() -> None:
    assert alert(for_="5m") == alert(for_="5m")
    assert hash(alert()) == hash(alert())
    assert alert(for_="5m") != alert(for_="6m")
    assert (alert(for_="5m").for_us, alert(clear=30).clear, alert().clear) == (300_000_000, 30.0, 60.0)


def test_an_alert_of_a_segment_watches_the_metric_of_the_segment() -> None:
    declared = hr.Alert("auc in France", on=Metric("fraud"), below=0.9, segment={"country": "FR"})
    assert declared.on == Metric("fraud", (("country", "FR"),))
    assert declared.group == "model fraud"


def test_what_belongs_together_is_one_group() -> None:
    shared = hr.share(DEAD, of=ARRIVED, over="5m")
    assert alert().group == hr.Alert("dead", on=shared, above=0.1).group == "stream payments"
    assert hr.Alert("server", on=hr.metric("headrace_server_up"), below=1).group == "the app"


def test_an_objective_is_alarmed_by_its_burn() -> None:
    declared = hr.Alert("dead", on=hr.Objective(DEAD, ARRIVED, allowed=0.01))
    assert (declared.above, declared.clear) == (1.0, 0.9)
    # As the workbook derives them: a share of the budget of 30 days, used up within the long window.
    for burn, spent in zip(DEFAULT_BURN_RATES, (0.02, 0.05, 0.10), strict=True):
        assert burn.factor == pytest.approx(spent * 30 * 86_400_000_000 / burn.long_window_us)
        assert burn.short_window_us * 12 == burn.long_window_us


def test_an_app_has_its_alerts_alone_and_in_lists() -> None:
    app = build_app(module_of(one=alert(), more=[alert(name="a"), alert(name="b")], again=alert()))
    assert [found.name for found in app.alerts] == ["lag", "a", "b"]


MISTAKES: list[tuple[str, Callable[[], Any], list[str]]] = [
    ("no name", lambda: alert(name=" "), ["Alert ' '", "such as"]),
    ("a name with a line break", lambda: alert(name="a\nb"), ["printable"]),
    ("nothing watched", lambda: alert(on="auc"), ["on='auc'", 'fraud.auc("1h")', "hr.metric"]),
    ("no limit", lambda: alert(above=None), ["neither above= nor below=", "above=0.1 or below=0.9"]),
    ("two limits", lambda: alert(below=1), ["both above= and below="]),
    ("a limit that is text", lambda: alert(above="60"), ["above='60'", "Write a number"]),
    ("a limit that is NaN", lambda: alert(above=float("nan")), ["above=nan"]),
    ("a limit that is true", lambda: alert(above=True), ["above=True"]),
    ("a clear on the wrong side", lambda: alert(clear=61), ["clear=61", "at most 60"]),
    ("a clear below a lower limit", lambda: alert(above=None, below=1, clear=0.5), ["at least 1"]),
    ("a bad duration", lambda: alert(for_="soon"), ["for_", "'soon'"]),
    ("a bad no_data", lambda: alert(no_data="fire"), ["no_data", '"keep"']),
    ("an unknown severity", lambda: alert(severity="bad"), ["severity='bad'", '"page"', '"ticket"']),
    ("a segment of a lag", lambda: alert(segment={"country": "FR"}), ["has no segments"]),
    ("an empty segment", lambda: alert(on=Metric("fraud"), segment={}), ["segment={}", "country"]),
    ("a why that is none", lambda: alert(why=None), ["why=None"]),
    ("a count without a window", lambda: alert(on=DEAD), ["only grows", "over="]),
    ("limits of an objective", lambda: alert(on=hr.Objective(DEAD, ARRIVED, allowed=0.1)), ["Leave above="]),
    ("an unknown metric", lambda: hr.metric("headrace_lagg"), ["headrace_lagg", "headrace_lag,"]),
    ("a metric without its _total", lambda: hr.metric("headrace_events"), ["Write headrace_events_total."]),
    ("an unknown label", lambda: hr.metric("headrace_lag", view="V"), ["no label 'view'", "It has stream"]),
    ("a label that is a stream", lambda: hr.metric("headrace_lag", stream=payments), ["stream=", "Write its text"]),  # type: ignore[arg-type]
    ("a level of everything", lambda: hr.metric("headrace_lag"), ["each stream", 'stream="…"']),
    ("a level with a window", lambda: hr.metric("headrace_lag", stream="payments", over="1m"), ["Leave over='1m'"]),
    ("a slow count", lambda: hr.metric("headrace_dead_total", slower="1s"), ["counts no delays"]),
    ("a share of a level", lambda: hr.share(LAG, of=ARRIVED, over="5m"), ["is no count"]),
    ("a share of few", lambda: hr.share(DEAD, of=ARRIVED, over="5m", at_least=0), ["at_least=0"]),
    ("everything allowed", lambda: hr.Objective(DEAD, ARRIVED, allowed=1), ["allowed=1", "allowed=0.01"]),
    (
        "windows the wrong way round",
        lambda: hr.Objective(DEAD, ARRIVED, allowed=0.01, windows=[("5m", "1h", 14.4)]),
        ["the longer one first"],
    ),
    (
        "a rate that cannot be",
        lambda: hr.Objective(DEAD, ARRIVED, allowed=0.1, windows=[("1h", "5m", 14.4)]),
        ["can never be reached", "below 10"],
    ),
    (
        "windows that are none",
        lambda: hr.Objective(DEAD, ARRIVED, allowed=0.1, windows=["1h"]),  # type: ignore[list-item]
        ["windows=['1h']"],
    ),
    (
        "a stream of another app",
        lambda: build_app(module_of(one=alert(on=hr.metric("headrace_lag", stream="payment")))),
        ["no stream 'payment'", "declares payments"],
    ),
    (
        "two alerts of one name",
        lambda: build_app(module_of(one=alert(), two=alert(above=61))),
        ["two declarations are named 'lag'"],
    ),
]


@pytest.mark.parametrize(("declare", "words"), [one[1:] for one in MISTAKES], ids=[one[0] for one in MISTAKES])
def test_a_mistake_is_refused_with_what_to_write(declare: Callable[[], Any], words: list[str]) -> None:
    with pytest.raises(hr.DeclarationError) as refused:
        declare()
    for word in words:
        assert word in str(refused.value)
