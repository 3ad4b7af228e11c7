"""An app with a model; the test writes the output of its gate and tiles itself, at once."""

import json
import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path
from typing import Any
from zlib import crc32

from headrace.declare.app import App, load_app
from headrace.declare.features.view import View
from headrace.declare.models.model import Model
from headrace.kafka.consumers.last_records import LastRecordsReader
from headrace.kafka.headers import ARRIVAL_HEADER, position_headers
from headrace.kafka.producer.producer import Producer
from headrace.kafka.record import ConsumerRecord
from headrace.kafka.status.heartbeat import ensure_progress_topic
from headrace.kafka.topics import ensure_topics
from headrace.models.inference.prediction import Prediction, decode_prediction
from headrace.tiles.events.event_parser import Event, parse_event
from headrace.tiles.fold import fold_into_tiles, to_event_columns
from headrace.tiles.layout import live_layouts
from headrace.tiles.tile import encode_key, encode_tile
from tests.models.networks import weighing
from tests.waiting import wait_until

PARTITIONS = 2
INPUTS = ("taps_10m", "taps_1h", "spent_1h", "share", "amount")
TEXT = """
import headrace as hr

taps = hr.Stream(
    "taps{number}", schema="id string, card string, amount double, at timestamp", id="id", key="card", time="at",
    partitions=2, {stream}
)


@hr.features(taps, by="card")
class Spend{number}:
    taps = hr.count(windows=["10m", "1h"])
    spent = hr.sum("amount", windows="1h")
    share = hr.request("amount", "double") / spent["1h"]


model = hr.Model(
    "taps{number}-fraud", on=taps, features=[Spend{number}], fields=["amount"], {source}, budget="{budget}",
    thresholds={{"block": 100.0}},
)
"""

_numbers = count()


def app_file(
    folder: Path, budget: str = "50ms", source: str = 'file="model.onnx"', content: bytes = b"", stream: str = ""
) -> Path:
    """An app no other test has, in a folder, with its ONNX beside it."""
    (folder / "model.onnx").write_bytes(content or weighing(len(INPUTS)))
    file = folder / "app.py"
    file.write_text(TEXT.format(number=next(_numbers), source=source, budget=budget, stream=stream))
    return file


def new_app(folder: Path, broker: str, **settings: Any) -> App:
    """Such an app with its topics."""
    app = load_app(str(app_file(folder, **settings)))
    ensure_topics(broker, app.streams, app.views, app.models)
    ensure_progress_topic(broker)
    return app


@dataclass
class Played:
    """The gate and the tiles of an app: remembers every event it let through."""

    app: App
    broker: str
    events: dict[str, list[tuple[Event, int]]] = field(default_factory=dict)
    offsets: list[int] = field(default_factory=lambda: [0] * PARTITIONS)

    def __post_init__(self) -> None:
        self.producer = Producer(self.broker)

    @property
    def model(self) -> Model:
        return self.app.models[0]

    @property
    def view(self) -> View:
        return self.app.views[0]

    def event(self, number: int, card: str | None = None) -> dict[str, Any]:
        now_ms = time.time_ns() // 1_000_000
        return {"id": f"e{number}", "card": card or f"c{number % 7}", "amount": float(number % 90), "at": now_ms}

    def clean(self, event: dict[str, Any], arrival_us: int | None = None) -> ConsumerRecord:
        """The clean record of an event that arrived just now."""
        partition = crc32(event["card"].encode()) % PARTITIONS
        offset = self.offsets[partition]
        self.offsets[partition] += 1
        arrival_us = arrival_us or time.time_ns() // 1_000_000 * 1000
        headers = position_headers(offset, arrival_us)
        topic, key = self.model.stream.clean, event["card"].encode()
        return ConsumerRecord(topic, partition, offset, arrival_us, key, json.dumps(event).encode(), headers)

    def tiles(self, record: ConsumerRecord) -> list[ConsumerRecord]:
        """The tiles of a clean record's card with it."""
        stream = self.model.stream
        event = parse_event(stream.schema, record.value)
        known = self.events.setdefault(event["card"], [])
        if all(event["id"] != other["id"] for other, _ in known):
            known.append((event, ARRIVAL_HEADER.read_or(record, 0)))
        layouts = {layout.version: layout for layout in live_layouts(self.view)}
        folded = fold_into_tiles(self.view, to_event_columns(self.view, stream, *zip(*known, strict=True)))
        return [
            ConsumerRecord(
                self.view.topic, record.partition, 0, 0, encode_key(k), encode_tile(layouts[k.version], tile), None
            )
            for k, tile in folded
        ]

    def send(self, record: ConsumerRecord, *, tiles: bool = True) -> None:
        """Write a clean record and then its tiles, as the gate and the tiles query do."""
        for one in (record, *(self.tiles(record) if tiles else ())):
            self.producer.send(one.topic, one.value, key=one.key, partition=one.partition, headers=one.headers or ())

    def sent_one(self, number: int) -> Prediction:
        """The prediction of an event, once it was sent and scored."""
        self.send(self.clean(self.event(number)))
        wait_until(lambda: f"e{number}" in ids(self.predictions()), 20, "a prediction")
        return next(one for one in self.predictions() if one.event_id == f"e{number}")

    def predictions(self) -> list[Prediction]:
        """Every prediction there is."""
        return [
            decode_prediction(record.value or b"")
            for record in LastRecordsReader(self.broker, self.model.predictions, 10**9).read_new_records()
        ]

    def expected(self, prediction: Prediction) -> dict[str, Any]:
        """Brute force over the input events of its vector; each hop has its own, as tiles arrive one by one."""
        card, amount = self._of(prediction.event_id)
        known = prediction.known[self.view.name]
        all_of_card = [event["amount"] for event, _ in self.events.get(card, [])]
        of_10m, of_1h = (all_of_card[:events] for events, _ in known)
        assert [len(of_10m), len(of_1h)] == [events for events, _ in known]
        spent = sum(of_1h) if of_1h else None
        share = amount / spent if spent else None
        return dict(zip(INPUTS, (len(of_10m), len(of_1h), spent, share, amount), strict=True))

    def _of(self, event_id: str) -> tuple[str, float]:
        return next(
            (card, event["amount"])
            for card, known in self.events.items()
            for event, _ in known
            if event["id"] == event_id
        )


def final(predictions: Iterable[Prediction]) -> dict[tuple[str, str, str], Prediction]:
    """Of each id, version and role the first in the log, which counts."""
    found: dict[tuple[str, str, str], Prediction] = {}
    for one in predictions:
        found.setdefault((one.event_id, one.version, one.role), one)
    return found


def ids(predictions: Sequence[Prediction]) -> list[str]:
    return [one.event_id for one in predictions]
