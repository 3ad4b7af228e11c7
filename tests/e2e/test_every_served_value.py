"""Through broker, Spark, store and HTTP: every served value equals brute force over the raw events."""

import itertools
import math
import threading
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack
from datetime import datetime
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from headrace.declare.app import App, load_app
from headrace.declare.features.view import Feature, View
from headrace.declare.streams.schema import Kind
from headrace.lake.consistency.batch_check import check_served
from tests.background import beside
from tests.e2e.hostile_load import arrived, send, sent_now
from tests.oracle import brute
from tests.oracle.several_streams import refund
from tests.oracle.streams import DAY_US, SECOND_US, Sent
from tests.running import Running
from tests.waiting import wait_until

APP = Path(__file__).with_name("everything_app.py")
COUNT = 6_500
SPANS_US = {"correcting": 7 * DAY_US, "siding": 600 * SECOND_US, "dropping": 600 * SECOND_US}
SETTLE_LIMIT_S = 240
CHECKED = ("CorrectingByCard", "SeveralByCard")
FATES = ("clean", "late", "dead", "dropped")


@pytest.fixture(scope="module")
def app() -> App:
    return load_app(str(APP))


@pytest.fixture(scope="module")
def served(app: App, tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Running, dict[str, list[Sent]]]]:
    """A running Headrace that has taken in more than 20,000 hostile events, and what arrived."""
    with Running(APP, tmp_path_factory.mktemp("everything"), "--lake", "off") as running, ExitStack() as stack:
        running.wait_until_ready()
        for view in CHECKED:
            stack.enter_context(beside(partial(ask_on, running, view, ["hot", "c1", "é", ""])))
        sent = {name: sent_now(seed, COUNT, span_us) for seed, (name, span_us) in enumerate(SPANS_US.items())}
        sent["refunds"] = [back for one in sent["correcting"][::4] if (back := refund(one))]
        for name, records in sent.items():
            send(running.broker, name, records)
        log = {name: arrived(running.broker, name, records) for name, records in sent.items()}
        assert sum(map(len, log.values())) > 20_000
        yield running, log


def ask_on(running: Running, view: str, keys: list[str], stop: threading.Event) -> None:
    """Send requests until stopped, so that responses are given with events in flight."""
    for key in itertools.cycle(keys):
        running.features(view, [key])
        if stop.wait(0.05):
            return


@pytest.mark.timeout(900)
def test_every_record_is_accounted_for(app: App, served: tuple[Running, dict[str, list[Sent]]]) -> None:
    running, log = served
    for stream in app.streams:
        name, total = stream.name, len(log[stream.name])
        wait_until(partial(all_accounted, running, name, total), SETTLE_LIMIT_S, f"the fates of {name}")
        expected = Counter(fate_of(brute.fate(stream, one)) for one in log[name])
        assert running.events(name) == {"in": total, **{fate: expected[fate] for fate in FATES}}


def all_accounted(running: Running, stream: str, total: int) -> bool:
    """Wait for the counts of arrived events and of their fates, which are read one after the other."""
    events = running.events(stream)
    return events["in"] == total == sum(events[fate] for fate in FATES)


def fate_of(judged: str) -> str:
    return judged if judged in ("clean", "late", "dropped") else "dead"


@pytest.mark.timeout(900)
@pytest.mark.parametrize(
    "name", ["CorrectingByCard", "CorrectingByPair", "SidingByCard", "DroppingByShop", "SeveralByCard"]
)
def test_every_served_value_is_what_loops_over_the_events_say(
    app: App, served: tuple[Running, dict[str, list[Sent]]], name: str
) -> None:
    running, log = served
    view = app.view(name)
    counted = counted_in(view, log)
    entities = sorted(
        {entity for event in counted if None not in (entity := tuple(event[c] for c in view.by))}, key=str
    )
    last_us = max(brute.time_of(view, event) for event in counted) // 1000 * 1000
    wait_until(
        lambda: folded(running, view, entities, last_us) == whole(view, counted), SETTLE_LIMIT_S, f"{name}'s tiles"
    )
    for at_us in (last_us, last_us - 50 * SECOND_US):
        assert differences(running, view, counted, entities, at_us) == []


def counted_in(view: View, log: dict[str, list[Sent]]) -> list[dict[str, Any]]:
    counted = {stream.name: brute.counted(stream, log[stream.name]) for stream in view.streams}
    return brute.united(view, counted) if len(counted) > 1 else counted[view.streams[0].name]


@pytest.mark.timeout(900)
@pytest.mark.parametrize("name", CHECKED)
def test_what_was_served_all_the_while_is_what_had_arrived(
    app: App, served: tuple[Running, dict[str, list[Sent]]], spark: SparkSession, name: str
) -> None:
    running, _ = served
    view = app.view(name)
    findings = check_served(spark, view, f"kafka://{running.broker}")
    assert findings.wrong == 0, findings.worst
    assert findings.rows > 100
    assert set(findings.by_arrival) == set(view.names)
    assert sum(one.exact + one.rounded for one in findings.by_arrival.values()) > 0


@pytest.mark.timeout(900)
@pytest.mark.parametrize("name", CHECKED)
def test_the_check_that_never_stops_tells_the_same(served: tuple[Running, dict[str, list[Sent]]], name: str) -> None:
    running, _ = served

    def values(outcome: str) -> float:
        labels = f'outcome="{outcome}",view="{name}"'
        return running.metrics().get(("headrace_checked_values_total", labels), 0.0)

    wait_until(lambda: values("exact") > 1_000, SETTLE_LIMIT_S, "values to be checked")
    assert values("wrong") == 0


def folded(running: Running, view: View, entities: list[tuple[Any, ...]], at_us: int) -> int:
    return sum(row["values"]["number_7d"] for row in ask(running, view, entities, at_us))


def whole(view: View, counted: list[dict[str, Any]]) -> int:
    return sum(None not in tuple(event[column] for column in view.by) for event in counted)


def ask(running: Running, view: View, entities: list[tuple[Any, ...]], at_us: int) -> list[dict[str, Any]]:
    keys = [list(entity) if len(view.by) > 1 else entity[0] for entity in entities]
    return running.features(view.name, keys, at_us // 1000)


def differences(
    running: Running, view: View, counted: list[dict[str, Any]], entities: list[tuple[Any, ...]], at_us: int
) -> list[tuple[Any, ...]]:
    rows = ask(running, view, entities, at_us)
    return [
        (entity, feature.name, row["values"][feature.name], expected)
        for entity, row in zip(entities, rows, strict=True)
        for feature, expected in expectations(view, counted, entity, at_us)
        if not agrees(feature, row["values"][feature.name], *expected)
    ]


def expectations(
    view: View, counted: list[dict[str, Any]], entity: tuple[Any, ...], at_us: int
) -> list[tuple[Feature, brute.Expected]]:
    expected = brute.features(view, counted, entity, at_us)
    return [(feature, expected[feature.name]) for feature in view.features]


def agrees(feature: Feature, served: Any, oracle: Any, scale: float, within: tuple[float, float] | None) -> bool:
    if served is None or oracle is None:
        return served is oracle
    if feature.aggregate.function == "distinct":
        return abs(served - oracle) <= max(0.5, 4 * (feature.aggregate.error or 0) * oracle)
    if feature.aggregate.kind is Kind.TIMESTAMP:
        return microseconds(served) == oracle
    if within is not None:
        return within[0] <= float(served) <= within[1]
    if isinstance(oracle, float):
        return close(float(served), oracle, scale)
    if isinstance(oracle, dict):
        return list(served.items()) == [(key_text(key), count) for key, count in oracle.items()]
    return type(served) is type(oracle) and bool(served == oracle)


def key_text(key: Any) -> str:
    return {True: "true", False: "false"}[key] if isinstance(key, bool) else str(key)


def microseconds(text: str) -> int:
    moment = datetime.fromisoformat(text)
    return round(moment.replace(microsecond=0).timestamp()) * SECOND_US + moment.microsecond


def close(served: float, oracle: float, scale: float) -> bool:
    if math.isfinite(oracle):
        return abs(served - oracle) <= 1e-9 * max(scale, abs(oracle))
    return served == oracle or (math.isnan(served) and math.isnan(oracle))
