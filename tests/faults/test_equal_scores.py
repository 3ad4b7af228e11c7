"""Ten thousand payments of the fraud example, scored in the stream and over HTTP: each score equals the batch's.

request with include ──▶ answer, logged with what it contains ─┐
        │ then produced                                        ├─▶ the same events, by the training set's own kernel
        └──▶ gate ──▶ tiles ──▶ scorer ──▶ logged likewise ────┘
"""

import random
import sys
import threading
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from lightgbm import LGBMClassifier

import headrace as hr
from headrace.declare.app import load_app
from headrace.kafka.consumers.last_records import LastRecordsReader
from headrace.kafka.headers import ARRIVAL_HEADER
from headrace.kafka.producer.producer import Producer
from headrace.lake.arrow_events import ARROW_TYPES, to_events_table
from headrace.lake.historical_features import compute_past_features, hop_streams, known_column
from headrace.models.inference.arrow_scoring import read_columns
from headrace.models.inference.prediction import Prediction, decode_prediction
from headrace.models.training.onnx_export import export_to_onnx
from headrace.models.versions.version_loader import load_champion
from headrace.tiles.events.event_parser import Event, parse_event
from tests.models.cards import versions_of
from tests.models.simulated_stream import final
from tests.running import Running
from tests.waiting import wait_until

APP = Path(__file__).parents[2] / "examples" / "fraud" / "app.py"
COUNT, A_SECOND, CLIENTS = 10_000, 100, 4
CARDS, MERCHANTS, COUNTRIES = 500, 60, ("FR", "DE", "IT")
AGAIN = 0.02
ALIKE = 1e-6


class Contained(NamedTuple):
    """A prediction, and the events that its vector names as its input, each with its arrival."""

    prediction: Prediction
    events: list[tuple[Event, int]]


class Compared(NamedTuple):
    """What recomputing has found of the predictions of one source."""

    made: int
    compared: int
    equal: int
    largest: float
    own: int

    def row(self, source: str) -> str:
        counts = f"{self.made:>8,}{self.compared:>10,}{self.equal:>8,}{self.compared - self.equal:>10}"
        return f"{source:<8}{counts}{self.largest:>12.1e}{self.own / self.made:>12.2%}"


def payment(dice: random.Random, number: int) -> dict[str, Any]:
    return {
        "payment_id": f"p{number}",
        "card": f"c{dice.randrange(CARDS)}",
        "merchant": f"m{dice.randrange(MERCHANTS)}",
        "country": dice.choice(COUNTRIES),
        "amount": round(dice.expovariate(1 / 60), 2),
        "at": time.time_ns() // 1_000_000,
    }


class Shop(threading.Thread):
    """Asks for the score of every fourth payment when it is due, and then produces it; a few come again."""

    def __init__(self, running: Running, first: int, began: float) -> None:
        super().__init__()
        self._running, self._first, self._began = running, first, began
        self._dice = random.Random(first)
        self.failure: Exception | None = None

    def run(self) -> None:
        try:
            with Producer(self._running.broker) as producer:
                for number in range(self._first, COUNT, CLIENTS):
                    time.sleep(max(0.0, self._began + number / A_SECOND - time.monotonic()))
                    self._pay(producer, number)
        except Exception as failure:  # noqa: BLE001 - the test reports it
            self.failure = failure

    def _pay(self, producer: Producer, number: int) -> None:
        paid = payment(self._dice, number)
        self._running.predict("fraud", paid, include=True)
        for _ in range(2 if self._dice.random() < AGAIN else 1):
            producer.send("payments", paid, key=paid["card"])


def add_model(model: hr.Model, state: Path) -> None:
    """Trees fitted on numbers that are the same each time, as the model's first version."""
    chance = np.random.default_rng(0)
    frame = pd.DataFrame({name: chance.exponential(50, 4_000).astype(np.float32) for name in model.vector.names})
    is_fraud = frame.sum(axis=1) + chance.normal(0, 100, len(frame)) > 50 * len(model.vector.names)
    trees = LGBMClassifier(n_estimators=100, num_leaves=15, verbose=-1, n_jobs=1).fit(frame, is_fraud)
    versions_of(state, export_to_onnx(trees, model.vector.columns), model=model.name)


@pytest.mark.faults
@pytest.mark.timeout(1200)
def test_stream_http_and_batch_say_the_same_of_the_same_events(tmp_path: Path) -> None:
    model = next(one for one in load_app(str(APP)).models if one.name == "fraud")
    add_model(model, tmp_path)
    with Running(APP, tmp_path, "--lake-every", "1h") as running:
        running.wait_until_ready()
        took_s = sell(running)
        wait_until(lambda: len(predicted(running, model, "stream")) >= COUNT, 120, "every prediction", running.said)
        wait_until(lambda: len(predicted(running, model, "http")) >= COUNT, 60, "every answer's record", running.said)
        by_card = clean_by_card(running, model)
        found = {source: contained(predicted(running, model, source), by_card) for source in ("stream", "http")}
    told = {source: compared(ones, recomputed(model, tmp_path, ones)) for source, ones in found.items()}
    same, alike = pairs(found)
    latencies = [one.prediction.latency_ms or 0.0 for one in found["stream"]]
    degraded = sum(bool(one.prediction.degraded) for one in found["stream"])
    p50, p99 = np.percentile(latencies, [50, 99])
    head = f"{'':<8}{'made':>8}{'compared':>10}{'equal':>8}{'differing':>10}{'largest':>12}{'own is last':>12}"
    lines = [head, *(one.row(source) for source, one in told.items())]
    lines.append(f"both made of the same events: {same:,}, equal: {alike:,}")
    lines.append(
        f"{COUNT / took_s:.0f} events/s; decided after {p50:.1f} ms (P50), {p99:.1f} ms (P99); {degraded} degraded"
    )
    sys.stdout.write("\n" + "\n".join(lines) + "\n")
    for one in told.values():
        assert (one.made, one.equal) == (COUNT, one.compared)
        assert one.compared > 0.8 * COUNT  # tiles of two hops may come a moment apart, and a vector in between
    assert same == alike > 0


def sell(running: Running) -> float:
    """Ask about all payments and produce them; how long that took."""
    began = time.monotonic()
    shops = [Shop(running, first, began) for first in range(CLIENTS)]
    for shop in shops:
        shop.start()
    for shop in shops:
        shop.join()
    assert [shop.failure for shop in shops] == [None] * CLIENTS
    return time.monotonic() - began


def predicted(running: Running, model: hr.Model, source: str) -> list[Prediction]:
    """What counts of the predictions of one source."""
    found = (
        decode_prediction(record.value or b"")
        for record in LastRecordsReader(running.broker, model.predictions, 10**9).read_new_records()
    )
    return list(final(one for one in found if one.source == source).values())


def clean_by_card(running: Running, model: hr.Model) -> dict[str, list[tuple[Event, int]]]:
    """The clean events of each card in the order of the log, each id once, with their arrivals."""
    by_card: dict[str, list[tuple[Event, int]]] = {}
    seen: set[str] = set()
    for record in LastRecordsReader(running.broker, model.stream.clean, 10**9).read_new_records():
        event = parse_event(model.stream.schema, record.value)
        if event["payment_id"] not in seen:
            seen.add(event["payment_id"])
            by_card.setdefault(event["card"], []).append((event, ARRIVAL_HEADER.read_or(record, 0)))
    return by_card


def contained(predictions: Sequence[Prediction], by_card: dict[str, list[tuple[Event, int]]]) -> list[Contained]:
    """The events of each vector; none where it does not tell them, for its hops differ or arrivals are alike."""
    cards = {event["payment_id"]: card for card, events in by_card.items() for event, _ in events}
    return [Contained(one, _events(one, by_card[cards[one.event_id]])) for one in predictions]


def _events(one: Prediction, of_card: list[tuple[Event, int]]) -> list[tuple[Event, int]]:
    """The first events of the card, as many as were counted; over HTTP the payment itself came by the request.

    Two events of a card that arrive at once may be reordered between Spark's tasks, which share events out by their
    ids: the prediction then names the last one, and the one before it in the log is still to come.
    """
    hops = {tuple(hop) for hop in one.known["CardSpend"]}
    count, arrival_us = hops.pop()
    if one.source == "http":
        own = next(event for event, _ in of_card if event["payment_id"] == one.event_id)
        others = [pair for pair in of_card if pair[0] is not own]
        of_card = [*others[: count - 1], (own, one.read_at_us)]
    before = max(0, count - 1)
    told = [pair for pair in of_card[before:] if pair[1] == arrival_us]
    return [*of_card[:before], *told] if not hops and len(told) == 1 else []


def recomputed(model: hr.Model, state: Path, found: Sequence[Contained]) -> pa.Table:
    """The vectors and scores of a batch: each vector is a separate entity with its own input events."""
    view = model.views[0]
    asked = [(str(place), one) for place, one in enumerate(found)]
    past = [({**event, "card": name}, arrival_us) for name, one in asked for event, arrival_us in one.events]
    amounts = pa.array([one.prediction.features["amount"] for _, one in asked], pa.float64())
    (entity,) = view.entity
    columns = {"e0": pa.array([name for name, _ in asked], ARROW_TYPES[entity.kind])}
    columns |= {"hr_at": pa.array([one.prediction.read_at_us for _, one in asked], pa.int64()), "r0": amounts}
    for number, place in enumerate(hop_streams(view)):
        arrivals_us = [one.prediction.known[view.name][number][1] for _, one in asked]
        columns[known_column("known", *place)] = pa.array(arrivals_us, pa.int64())
    events, arrivals = zip(*past, strict=True)
    table = compute_past_features(
        view, to_events_table(view, view.streams[0], list(events), list(arrivals)), pa.table(columns)
    )
    features = {name: table[name] for name in table.column_names if name in model.known}
    scorer = load_champion(model, state).scorer
    batch = pa.table(features | {"amount": amounts}).combine_chunks().to_batches()[0]
    scores = scorer.score(read_columns(batch, scorer.columns))
    return pa.table({name: batch[name] for name in model.vector.names} | {"score": scores})


def compared(found: Sequence[Contained], batch: pa.Table) -> Compared:
    """How many scores and all they were made from are the batch's; `own` are the vectors whose last event is theirs."""
    rows = zip(found, batch.to_pylist(), strict=True)
    differences = [_difference(one.prediction, row) for one, row in rows if one.events]
    own = sum(_ends_with_own(one.prediction) for one in found)
    equal = sum(difference <= ALIKE for difference in differences)
    return Compared(len(found), len(differences), equal, max(differences), own)


def _ends_with_own(one: Prediction) -> bool:
    """Whether the last event of a vector, in every hop, is the one that was scored."""
    arrival_us = one.read_at_us if one.source == "http" else one.arrival_us
    return all(hop[1] == arrival_us for hop in one.known["CardSpend"])


def _difference(one: Prediction, row: dict[str, Any]) -> float:
    """The largest difference of a score, or of a value relative to it; infinite where only one of both is null."""
    said = {**one.features, "score": one.score}
    found = [(said[name], value) for name, value in row.items()]
    if any((ours is None) != (theirs is None) for ours, theirs in found):
        return float("inf")
    return max(abs(ours - theirs) / max(1.0, abs(theirs)) for ours, theirs in found if ours is not None)


def pairs(found: dict[str, list[Contained]]) -> tuple[int, int]:
    """How many payments both vectors of which are made of the same events, and how many of those score the same."""
    over_http = {one.prediction.event_id: one for one in found["http"]}
    both = [(one, over_http[one.prediction.event_id]) for one in found["stream"]]
    same = [(one.prediction, other.prediction) for one, other in both if one.events and _ids(one) == _ids(other)]
    return len(same), sum(abs((one.score or 0.0) - (other.score or 0.0)) <= ALIKE for one, other in same)


def _ids(one: Contained) -> list[str]:
    return [event["payment_id"] for event, _ in one.events]
