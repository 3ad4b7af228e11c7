"""Through broker, Spark, store and scorer: every event has a prediction, equal to the training set's."""

import json
import os
import random
import shutil
import sys
import threading
import time
from collections.abc import Iterator, Sequence
from functools import partial
from itertools import count
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import urlencode
from uuid import uuid4

import numpy as np
import pyarrow as pa
import pytest
from click.testing import CliRunner
from deltalake import DeltaTable

from headrace.cli import main
from headrace.declare.app import load_app
from headrace.declare.features.view import View
from headrace.declare.models.model import Model
from headrace.embedded_servers.ports import HOST
from headrace.embedded_servers.process_priority import NICE_LEVEL
from headrace.kafka.consumers.last_records import LastRecordsReader
from headrace.kafka.headers import ARRIVAL_HEADER
from headrace.kafka.producer.producer import Producer
from headrace.lake.arrow_events import ARROW_TYPES, to_events_table
from headrace.lake.historical_features import compute_past_features, count_past_events, hop_streams, known_column
from headrace.models.inference.arrow_scoring import read_columns
from headrace.models.inference.prediction import Prediction, decode_prediction
from headrace.models.versions.version_loader import load_champion
from headrace.telemetry.event_tracer import EventTracer, TraceStep
from headrace.tiles.events.event_parser import Event, parse_event
from tests.background import beside
from tests.browser import Browser
from tests.models.networks import weighing
from tests.models.simulated_stream import final
from tests.running import Running
from tests.waiting import wait_until

APP = Path(__file__).with_name("scored_app.py")
COUNT, EVERY_S = 1_000, 0.01
CALM, CALM_EVERY_S = 30, 0.1
HEALTHS = "[...document.querySelectorAll('[data-node]')].map((node) => node.dataset.health)"
EVENTS_IN = "document.getElementById('golden-in').dataset.value"
TRACE = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"
HOT = "<b>hot</b>"
HOT_ROWS = "[...document.querySelectorAll('#heavy tr:has([data-health=bad])')].map((row) => row.textContent).join()"
SHOPS = [None, *(f"s{number}" for number in range(30))]


class Scored(NamedTuple):
    """An app that has scored some events: those that were clean, when they arrived, and what was predicted."""

    running: Running
    model: Model
    state: Path
    events: list[Event]
    arrivals_us: list[int]
    predictions: list[Prediction]


@pytest.fixture(scope="module")
def scored(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Scored]:
    folder = tmp_path_factory.mktemp("scored")
    app = Path(shutil.copy(APP, folder))
    model = load_app(str(app)).models[0]
    (folder / "scored.onnx").write_bytes(weighing(len(model.vector.names)))
    with Running(app, folder / "state", "--lake-every", "10s") as running:
        running.wait_until_ready()
        produce(running.broker)

        wait_until(lambda: len(predicted(running, model)) >= COUNT, 60, "every event's prediction", running.said)
        clean = list(LastRecordsReader(running.broker, model.stream.clean, 10**9).read_new_records())
        events = [parse_event(model.stream.schema, record.value) for record in clean]
        arrivals_us = [ARRIVAL_HEADER.read_or(record, 0) for record in clean]
        yield Scored(running, model, folder / "state", events, arrivals_us, predicted(running, model))


def predicted(running: Running, model: Model) -> list[Prediction]:
    """What counts of the predictions of the stream so far."""
    found = (
        decode_prediction(record.value or b"")
        for record in LastRecordsReader(running.broker, model.predictions, 10**9).read_new_records()
    )
    return list(final(one for one in found if one.source == "stream").values())


def produce(broker: str) -> None:
    """A hundred events a second; some of them come again, and some are no events at all."""
    dice, began = random.Random(11), time.monotonic()
    with Producer(broker) as producer:
        for number in range(COUNT):
            wait_until(lambda due=began + number * EVERY_S: time.monotonic() >= due, 5, "the next event")
            event = {"id": f"o{number}", "card": f"c{dice.randrange(40)}", "shop": dice.choice(SHOPS)}
            event |= {"amount": dice.randrange(10_000) / 100, "points": dice.randrange(9)}
            event["at"] = time.time_ns() // 1_000_000 - dice.choice([0, 0, 0, 1500])
            for _ in range(2 if dice.random() < 0.02 else 1):
                producer.send("orders", event, key=str(event["card"]))
            if dice.random() < 0.02:
                producer.send("orders", {**event, "id": f"dead{number}", "amount": -1}, key=str(event["card"]))


@pytest.mark.timeout(400)
def test_every_clean_event_has_one_prediction_that_counts(scored: Scored) -> None:
    expected = {event["id"] for event in scored.events}
    assert len(expected) == COUNT
    assert sorted(one.event_id for one in scored.predictions) == sorted(expected)


@pytest.mark.timeout(400)
def test_scores_are_those_of_the_training_set_by_arrival(scored: Scored) -> None:
    model = scored.model
    predictions = [one for one in scored.predictions if len(one.known) == len(model.views)]
    events, arrivals_us = each_once(scored.events, scored.arrivals_us)
    by_id = {event["id"]: event for event in events}
    spine = [by_id[one.event_id] for one in predictions]
    found = [features_of(view, predictions, spine, events, arrivals_us) for view in model.views]
    columns = {name: table[name] for table, _ in found for name in table.column_names if name in model.known}
    table = pa.table(columns | {"amount": pa.array([event["amount"] for event in spine])})
    scorer = load_champion(model, scored.state).scorer
    recomputed = scorer.score(read_columns(table.combine_chunks().to_batches()[0], scorer.columns))
    settled = np.logical_and.reduce([is_settled for _, is_settled in found])
    served = np.array([one.score for one in predictions])
    assert np.abs(served - recomputed)[settled].max() <= 1e-6 * np.abs(served).max()
    own = [
        all(hop[1] == one.arrival_us for name, known in one.known.items() if name == "CardOrders" for hop in known)
        for one in predictions
    ]
    stale = sum(bool(one.degraded) for one in predictions)
    p50, p99 = np.percentile([one.latency_ms or 0 for one in predictions], [50, 99])
    sys.stdout.write(
        f"\n{COUNT} events: {settled.mean():.1%} compared, {np.mean(own):.1%} end with their own event, "
        f"{stale} degraded, decided after {p50:.1f} ms (P50), {p99:.1f} ms (P99)\n"
    )
    assert settled.mean() > 0.2  # the rest had events on their way just then; how many depends on the machine


@pytest.mark.timeout(400)
def test_what_is_answered_with_an_event_included_is_what_the_stream_then_says(scored: Scored) -> None:
    """One event of a card, once all others of it are known: both have the same before them."""
    running, asked = scored.running, {}
    with Producer(running.broker) as producer:
        for number in range(CALM):
            event = {"id": f"calm{number}", "card": f"c{number}", "shop": None, "amount": 1.5 * number, "points": 2}
            event["at"] = time.time_ns() // 1_000_000
            asked[event["id"]] = running.predict("fraud", event, include=True)
            producer.send("orders", event, key=str(event["card"]))
            time.sleep(CALM_EVERY_S)

    def of_asked() -> list[Prediction]:
        return [one for one in predicted(running, scored.model) if one.event_id in asked]

    wait_until(lambda: len(of_asked()) == CALM, 60, "their predictions", running.said)
    fresh = {one.event_id: one for one in of_asked() if not one.degraded}
    assert fresh  # how many depends on the machine
    for event_id, one in fresh.items():
        assert one.score == pytest.approx(asked[event_id]["score"], rel=1e-6)
        for name, value in one.features.items():
            assert asked[event_id]["features"][name] == (value if value is None else pytest.approx(value, rel=1e-6))


def each_once(events: list[Event], arrivals_us: list[int]) -> tuple[list[Event], list[int]]:
    first = {
        event["id"]: (event, arrival_us) for event, arrival_us in reversed(list(zip(events, arrivals_us, strict=True)))
    }
    return [event for event, _ in first.values()], [arrival_us for _, arrival_us in first.values()]


def features_of(
    view: View, predictions: list[Prediction], spine: list[Event], events: list[Event], arrivals_us: list[int]
) -> tuple[pa.Table, Any]:
    """The training set kernel's result for each prediction's event, and where it has the same number of events."""
    (entity,) = view.entity
    known = [one.known[view.name] for one in predictions]
    columns = {"e0": pa.array([event[entity.name] for event in spine], ARROW_TYPES[entity.kind])}
    columns["hr_at"] = pa.array([one.read_at_us for one in predictions], pa.int64())
    columns["r0"] = pa.array([event["amount"] for event in spine], pa.float64())
    for number, place in enumerate(hop_streams(view)):
        columns[known_column("known", *place)] = pa.array([hops[number][1] for hops in known], pa.int64())
    asked, past = pa.table(columns), to_events_table(view, view.streams[0], events, arrivals_us)
    counts = count_past_events(view, past, asked)
    same = [
        (found == np.array([hops[number][0] for hops in known])) | asked["e0"].is_null().to_numpy()
        for number, found in enumerate(counts[place] for place in hop_streams(view))
    ]
    return compute_past_features(view, past, asked), np.logical_and.reduce(same)


@pytest.mark.timeout(400)
def test_the_way_of_an_event_is_told_from_its_id(scored: Scored) -> None:
    event = {"id": "traced", "card": "traced", "shop": "traced", "amount": 2.5, "points": 1}
    for _ in range(2):
        send_order(scored.running, {**event, "at": time.time_ns() // 1_000_000}, [("traceparent", TRACE)])
    wait_until(lambda: "traced" in {one.event_id for one in predicted(scored.running, scored.model)}, 60, "its score")
    wait_until(lambda: len(ways(scored, "traced")[0]) == 6, 20, "its whole way")
    first, again = ways(scored, "traced")
    traced = {step.what for step in first if step.said.get("traceparent") == TRACE}
    assert traced == {"arrived", "clean", "scored"}
    assert [step.what for step in first[:2]] == ["arrived", "clean"]
    # On a machine that is slow a score is due before its tiles have come: it is in the log before them.
    assert sorted(step.what for step in first[2:]) == ["folded", "folded", "folded", "scored"]
    assert [step.at_us for step in first] == sorted(step.at_us for step in first)
    folded = [step.said for step in first if step.what == "folded"]
    assert [one["entity"] for one in folded] == [["traced"]] * 3
    assert all(one["changed"]["events"] == [None, 1] for one in folded)
    assert [one["changed"]["float_sum amount s"] for one in folded if one["view"] == "CardOrders"] == [[None, 2.5]] * 2
    (prediction,) = (one for one in predicted(scored.running, scored.model) if one.event_id == "traced")
    assert [step.said["score"] for step in first if step.what == "scored"] == [prediction.score]
    assert [step.what for step in again] == ["arrived", "clean"]
    assert again[1].said["repeats"] == first[0].place


@pytest.mark.timeout(400)
def test_a_dead_letter_is_found_mended_and_counted_once(scored: Scored, tmp_path: Path) -> None:
    event = {"id": "mended", "card": "mended", "shop": None, "points": 1, "at": time.time_ns() // 1_000_000}
    send_order(scored.running, {**event, "amount": -1})
    wait_until(lambda: len(ways(scored, "mended")[0]) == 2, 20, "the gate")
    (way,) = ways(scored, "mended")
    assert (way[1].what, way[1].said["reason"]) == ("dead", "failed-check: amount >= 0")
    letters = tmp_path / "letters.jsonl"
    letters.write_text(json.dumps({"place": way[0].place, "value": {**event, "amount": 1}}) + "\n")
    for said in ({"replayed": 1, "already": 0}, {"replayed": 0, "already": 1}):
        words = ["dead", str(scored.running.app), "replay", "orders", "--from", str(letters), "--json"]
        result = CliRunner().invoke(main, [*words, "--broker", scored.running.broker])
        assert result.exit_code == 0, (result.output, result.exception)
        assert json.loads(result.output) == said
    wait_until(lambda: "mended" in {one.event_id for one in predicted(scored.running, scored.model)}, 60, "its score")
    (values,) = scored.running.features("CardOrders", ["mended"])
    assert values["values"]["orders_1h"] == 1


@pytest.mark.timeout(400)
def test_a_browser_shows_what_metrics_say(scored: Scored, tmp_path: Path) -> None:
    """With HEADRACE_PICTURES=FOLDER the pictures of the docs are taken on the way."""
    with Browser(tmp_path) as browser:
        for theme in ("light", "dark"):
            opened(browser, scored, page="streams", theme=theme)
            event = {"id": f"{theme} page", "card": "page", "shop": None, "amount": 1, "points": 1}
            send_order(scored.running, {**event, "at": time.time_ns() // 1_000_000})
            wait_until(
                lambda: shown_of_orders(browser) == scored.running.events("orders"), 20, "the page to say the same"
            )
            opened(browser, scored, theme=theme)
            wait_until(lambda: browser.value(HEALTHS) == ["ok"] * 4, 20, "all to be well")
            with beside(partial(send_on, scored.running.broker)):
                wait_until(lambda: float(browser.value(EVENTS_IN) or 0) > 0, 20, "numbers to move")
                pictured(browser, f"dashboard-{theme}", wait_s=30)  # for lines to grow
        assert float(browser.value("document.getElementById('golden-dead').dataset.value")) > 0
        assert browser.console == []


@pytest.mark.timeout(400)
def test_a_dead_letter_is_mended_on_the_page_and_traced_there(scored: Scored, tmp_path: Path) -> None:
    event = {"id": "on the page", "card": "on the page", "shop": None, "points": 1, "at": time.time_ns() // 1_000_000}
    send_order(scored.running, {**event, "amount": -1, "shop": "<img src=x onerror=alert(1)>"})
    wait_until(lambda: len(ways(scored, "on the page")[0]) == 2, 20, "the gate")
    place = ways(scored, "on the page")[0][0].place
    letter = f"document.querySelector('[data-letter=\"{place}\"]')"
    with Browser(tmp_path) as browser:
        opened(browser, scored, page="streams")
        settled(browser, "dead")
        browser.value("document.querySelector('#dead button').click()")
        settled(browser, "letters")
        assert "failed-check: amount >= 0" in browser.value(f"{letter}.textContent")
        browser.value(f"{letter}.querySelector('textarea').value = {json.dumps(json.dumps({**event, 'amount': 1}))}")
        browser.value(f"[...{letter}.querySelectorAll('button')][1].click()")
        wait_until(lambda: "replayed: 1" in browser.value("letters.textContent"), 20, "the page to say so")
        wait_until(lambda: "on the page" in {one.event_id for one in predicted(scored.running, scored.model)}, 60, "it")
        opened(browser, scored, page="trace", id="on the page")
        settled(browser, "way")
        steps = browser.value("[...document.querySelectorAll('#way li')].map((step) => step.dataset.step)")
        assert steps[:4] == ["arrived", "dead", "arrived", "clean"]
        assert sorted(steps[4:]) == ["folded", "folded", "scored"]
        pictured(browser, "dashboard-trace")
        assert browser.console == []


@pytest.mark.timeout(400)
def test_the_other_pages_are_there_without_a_complaint(scored: Scored, tmp_path: Path) -> None:
    (values,) = scored.running.features("CardOrders", ["c1"])
    with Browser(tmp_path) as browser:
        opened(browser, scored, page="features", view="CardOrders", key="c1")
        settled(browser, "values")
        features = "[...document.querySelectorAll('#values tbody th')].map((cell) => cell.textContent)"
        assert browser.value(features) == [*values["values"]]
        pictured(browser, "dashboard-features")
        opened(browser, scored, page="models")
        for panel in ("quality", "versions"):
            settled(browser, panel)
        assert browser.value("document.querySelector('#versions th[scope=row]').textContent") == "fraud"
        pictured(browser, "dashboard-models")
        opened(browser, scored, page="alerts")
        settled(browser, "alerts")
        assert browser.value("document.querySelectorAll('#alerts tbody tr').length") > 3
        browser.value("document.querySelector('#alerts button').click()")
        silenced = "document.querySelector('#alerts').textContent.includes('silenced until')"
        wait_until(lambda: browser.value(silenced), 20, "it to be silenced")
        pictured(browser, "dashboard-alerts")
        assert browser.console == []


@pytest.mark.timeout(400)
def test_a_hot_key_is_named_on_the_page(scored: Scored, tmp_path: Path) -> None:
    with Producer(scored.running.broker) as producer:
        for number in range(2 * COUNT):
            event = {"id": f"hot{number}", "card": HOT, "shop": None, "amount": 1, "points": 1}
            producer.send("orders", {**event, "at": time.time_ns() // 1_000_000}, key=HOT)
    with Browser(tmp_path) as browser:
        opened(browser, scored, page="streams")
        wait_until(lambda: HOT in browser.value(HOT_ROWS), 60, "the page to name it")
        assert f"{HOT} is " in browser.value("document.querySelector('#heavy strong').textContent")
        assert browser.console == []


def send_on(broker: str, stop: threading.Event) -> None:
    """Send some events a second until stopped."""
    with Producer(broker) as producer:
        for number in count():
            event = {"id": f"flow{uuid4()}", "card": f"c{number % 40}", "shop": SHOPS[number % 30], "points": 1}
            event |= {"amount": number % 100, "at": time.time_ns() // 1_000_000}
            producer.send("orders", event, key=str(event["card"]))
            if stop.wait(EVERY_S):
                return


def opened(browser: Browser, scored: Scored, **asked: str) -> None:
    """Open a page and wait until it is live."""
    browser.open(f"http://{HOST}:{scored.running.http_port}/?{urlencode(asked)}")
    wait_until(lambda: browser.value("document.body?.dataset.state") == "live", 20, "the page to be live")


def settled(browser: Browser, panel: str) -> None:
    """Wait until a panel shows its response."""
    state = f"document.getElementById('{panel}').dataset.panel"
    text = f"document.getElementById('{panel}').textContent"
    wait_until(lambda: browser.value(state) in {"there", "error"}, 60, f"the panel {panel}")
    assert browser.value(state) == "there", browser.value(text)


def pictured(browser: Browser, name: str, wait_s: float = 0) -> None:
    """Take a picture for the docs, where one is wanted."""
    folder = os.environ.get("HEADRACE_PICTURES")
    if folder:
        time.sleep(wait_s)
        (Path(folder) / f"{name}.png").write_bytes(browser.picture())


def shown_of_orders(browser: Browser) -> dict[str, int]:
    """The outcomes of the orders on the page."""
    cells = browser.value(
        "Object.fromEntries([...document.querySelectorAll('#streams [data-row=orders] td')]"
        ".map((cell) => [cell.dataset.column, Number(cell.dataset.value)]))"
    )
    return {"in": cells["arrived"], **{fate: cells[fate] for fate in ("clean", "late", "dead", "dropped")}}


def send_order(running: Running, event: dict[str, Any], headers: Sequence[tuple[str, str]] = ()) -> None:
    with Producer(running.broker) as producer:
        producer.send("orders", event, key=str(event["card"]), headers=headers)


def ways(scored: Scored, event_id: str) -> list[list[TraceStep]]:
    app = load_app(str(scored.running.app))
    return [*EventTracer(app, scored.running.broker, time.time_ns() // 1000 - 3_600_000_000).trace_event(event_id)]


@pytest.mark.timeout(400)
def test_predictions_land_in_the_lake_and_are_counted(scored: Scored) -> None:
    folder = scored.state / "lake" / "gold" / "fraud_predictions"
    wait_until(lambda: len(landed(folder)) >= COUNT, 250, "predictions to land", scored.running.said)
    rows = {row["id"]: row for row in landed(folder)}
    for one in scored.predictions:
        row = rows[one.event_id]
        assert (row["score"], row["decision"], row["version"]) == (one.score, one.decision, one.version)
        assert json.loads(row["features"]) == one.features
    labels = f'model="fraud",role="champion",version="{scored.predictions[0].version}"'
    wait_until(lambda: counted(scored.running, labels) >= COUNT, 20, "the metric")


def test_the_lake_gives_way_to_queries_and_scores(scored: Scored) -> None:
    parts = ("lake", "stream", "score")
    nice = {part: os.getpriority(os.PRIO_PROCESS, scored.running.pid_of(part) or 0) for part in parts}
    assert nice == {"lake": NICE_LEVEL, "stream": 0, "score": 0}


def landed(folder: Path) -> list[dict[str, Any]]:
    return DeltaTable(folder).to_pyarrow_table().to_pylist() if folder.exists() else []


def counted(running: Running, labels: str) -> float:
    return running.metrics().get(("headrace_predictions_total", labels), 0.0)
