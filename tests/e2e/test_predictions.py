"""Through broker, Spark, store and scorer: every event has a prediction, and it is the training set's."""

import json
import os
import random
import shutil
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pytest
from click.testing import CliRunner
from deltalake import DeltaTable

from headrace.cli import main
from headrace.declare.app import load_app
from headrace.declare.model import Model
from headrace.declare.views import View
from headrace.lake.lookback import events_in, features_at, known_name, places_of
from headrace.lake.plain import ARROW_TYPES, events_table
from headrace.local.polite import NICE
from headrace.local.ports import HOST
from headrace.log.ledger import ARRIVAL
from headrace.log.produce import Producer
from headrace.log.tail import Tail
from headrace.score.batches import columns_of
from headrace.score.champions import load_champion
from headrace.score.prediction import Prediction, decode
from headrace.tiles.events import Event, read_event
from headrace.watch.trace import Step, Tracer
from tests.browser import Browser
from tests.running import Running
from tests.score.networks import weighing
from tests.score.streamed import final
from tests.waiting import wait_until

APP = Path(__file__).with_name("scored_app.py")
COUNT, EVERY_S = 1_000, 0.01
CALM, CALM_EVERY_S = 30, 0.1
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
        clean = list(Tail(running.broker, model.stream.clean, 10**9).news())
        events = [read_event(model.stream.schema, record.value) for record in clean]
        arrivals_us = [int(record.header(ARRIVAL) or 0) for record in clean]
        yield Scored(running, model, folder / "state", events, arrivals_us, predicted(running, model))


def predicted(running: Running, model: Model) -> list[Prediction]:
    """What counts of the predictions of the stream so far."""
    found = (decode(record.value or b"") for record in Tail(running.broker, model.predictions, 10**9).news())
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
    recomputed = scorer.score(columns_of(table.combine_chunks().to_batches()[0], scorer.columns))
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
    """What the training set's kernel says of each prediction's event, and where it found as many events."""
    (entity,) = view.entity
    known = [one.known[view.name] for one in predictions]
    columns = {"e0": pa.array([event[entity.name] for event in spine], ARROW_TYPES[entity.kind])}
    columns["hr_at"] = pa.array([one.read_at_us for one in predictions], pa.int64())
    columns["r0"] = pa.array([event["amount"] for event in spine], pa.float64())
    for number, place in enumerate(places_of(view)):
        columns[known_name("known", *place)] = pa.array([hops[number][1] for hops in known], pa.int64())
    asked, past = pa.table(columns), events_table(view, view.streams[0], events, arrivals_us)
    counts = events_in(view, past, asked)
    same = [
        (found == np.array([hops[number][0] for hops in known])) | asked["e0"].is_null().to_numpy()
        for number, found in enumerate(counts[place] for place in places_of(view))
    ]
    return features_at(view, past, asked), np.logical_and.reduce(same)


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


@pytest.mark.timeout(400)
def test_the_way_of_an_event_is_told_from_its_id(scored: Scored) -> None:
    event = {"id": "traced", "card": "traced", "shop": "traced", "amount": 2.5, "points": 1}
    for _ in range(2):
        send_order(scored.running, {**event, "at": time.time_ns() // 1_000_000})
    wait_until(lambda: "traced" in {one.event_id for one in predicted(scored.running, scored.model)}, 60, "its score")
    wait_until(lambda: len(ways(scored, "traced")[0]) == 6, 20, "its whole way")
    first, again = ways(scored, "traced")
    assert [step.what for step in first] == ["arrived", "clean", "folded", "folded", "folded", "scored"]
    assert [step.at_us for step in first] == sorted(step.at_us for step in first)
    folded = [step.said for step in first if step.what == "folded"]
    assert [one["entity"] for one in folded] == [["traced"]] * 3
    assert all(one["changed"]["events"] == [None, 1] for one in folded)
    assert [one["changed"]["float_sum amount s"] for one in folded if one["view"] == "CardOrders"] == [[None, 2.5]] * 2
    (prediction,) = (one for one in predicted(scored.running, scored.model) if one.event_id == "traced")
    assert first[-1].said["score"] == prediction.score
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
    running = scored.running
    with Browser(tmp_path) as browser:
        for theme in ("light", "dark"):
            browser.open(f"http://{HOST}:{running.http_port}/?theme={theme}")
            wait_until(lambda: browser.value("document.body?.dataset.state") == "live", 20, "the page to be live")
            event = {"id": f"{theme} page", "card": "page", "shop": None, "amount": 1, "points": 1}
            send_order(running, {**event, "at": time.time_ns() // 1_000_000})
            wait_until(lambda: shown_of_orders(browser) == running.events("orders"), 20, "the page to say the same")
            healths = browser.value("[...document.querySelectorAll('[data-node]')].map((node) => node.dataset.health)")
            assert healths == ["ok"] * 4
            pictured = os.environ.get("HEADRACE_PICTURES")
            if pictured:
                time.sleep(30)  # for lines to grow
                (Path(pictured) / f"dashboard-{theme}.png").write_bytes(browser.picture())
        assert float(browser.value("document.getElementById('golden-dead').dataset.value")) > 0
        assert browser.console == []


def shown_of_orders(browser: Browser) -> dict[str, int]:
    """What the page says became of the orders."""
    cells = browser.value(
        "Object.fromEntries([...document.querySelectorAll('#streams [data-row=orders] td')]"
        ".map((cell) => [cell.dataset.column, Number(cell.dataset.value)]))"
    )
    return {"in": cells["arrived"], **{fate: cells[fate] for fate in ("clean", "late", "dead", "dropped")}}


def send_order(running: Running, event: dict[str, Any]) -> None:
    with Producer(running.broker) as producer:
        producer.send("orders", event, key=str(event["card"]))


def ways(scored: Scored, event_id: str) -> list[list[Step]]:
    app = load_app(str(scored.running.app))
    return [*Tracer(app, scored.running.broker, time.time_ns() // 1000 - 3_600_000_000).ways(event_id)]


def test_the_lake_gives_way_to_queries_and_scores(scored: Scored) -> None:
    parts = ("lake", "stream", "score")
    nice = {part: os.getpriority(os.PRIO_PROCESS, scored.running.pid_of(part) or 0) for part in parts}
    assert nice == {"lake": NICE, "stream": 0, "score": 0}


def landed(folder: Path) -> list[dict[str, Any]]:
    return DeltaTable(folder).to_pyarrow_table().to_pylist() if folder.exists() else []


def counted(running: Running, labels: str) -> float:
    return running.metrics().get(("headrace_predictions_total", labels), 0.0)
