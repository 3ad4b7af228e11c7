"""kill -9 while every operator runs: each emits what it emits without faults, once."""

import json
import random
import threading
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from headrace.declare.app import App, load_app
from headrace.declare.operations.derived_stream import DerivedStream, StreamOperation
from headrace.declare.streams.stream import Stream
from headrace.kafka.consumers.offset_range import read_offset_range
from headrace.kafka.headers import ARRIVAL_HEADER, OFFSET_HEADER
from headrace.kafka.offsets import OffsetClient
from headrace.kafka.producer.producer import Producer
from headrace.operators.operator import InputEvent
from headrace.spark.stateful.output_encoding import to_json_bytes
from headrace.testing.scripts.pure_host import PureHost
from headrace.testing.scripts.steps import WatermarkStep
from headrace.tiles.events.event_parser import parse_event
from tests.faults.test_kills import at_a_random_moment
from tests.running import Running
from tests.waiting import patiently, wait_until

APP = Path(__file__).with_name("operators_app.py")
FOREVER_US = 4_000_000_000_000_000
EVENTS_A_SECOND = 40
CORRECTED, REPLACED = "visits", "totals"  # how often they emit a window depends on timing


class Load(threading.Thread):
    """Sends events of twenty users to both streams, some late, some twice, until stopped."""

    def __init__(self, broker: str, seed: int) -> None:
        super().__init__(daemon=True)
        self._broker, self._dice, self._stopped = broker, random.Random(seed), threading.Event()

    def run(self) -> None:
        with Producer(self._broker) as producer:
            number = 0
            while not self._stopped.wait(1 / EVENTS_A_SECOND):
                number += 1
                stream, event = self._dice.choice(["taps", "taps", "rates"]), self._event(number)
                for _ in range(1 + (self._dice.random() < 0.1)):
                    producer.send(stream, event, key=event["user"])

    def finish(self) -> None:
        self._stopped.set()
        self.join(patiently(30))

    def _event(self, number: int) -> dict[str, Any]:
        behind_ms = self._dice.choice([0] * 12 + [2_000, 7_000, 14_000, 25_000])
        kind = self._dice.choice(["tap", "skip"])
        user, amount = f"u{self._dice.randrange(20)}", self._dice.randrange(12) / 1.0
        at_ms = time.time_ns() // 1_000_000 - behind_ms - self._dice.randrange(500)
        return {"id": f"e{number}", "user": user, "kind": kind, "amount": amount, "at": at_ms}


def clean(broker: str, stream: Stream) -> list[Any]:
    """The clean records of a stream, as the gate first wrote them."""
    offsets = OffsetClient(broker)
    records = read_offset_range(
        broker, offsets.topic_start_offsets([stream.clean]), offsets.topic_end_offsets([stream.clean])
    )
    found: dict[tuple[int, int], Any] = {}
    for record in records:
        found.setdefault((record.partition, OFFSET_HEADER.read_or(record, -1)), record)
    return list(found.values())


def arrived(broker: str, number: int, stream: Stream) -> list[InputEvent]:
    """What an operator is given of a stream."""
    events = []
    for record in clean(broker, stream):
        values = parse_event(stream.schema, record.value)
        arrival_us, offset = ARRIVAL_HEADER.read(record), OFFSET_HEADER.read(record)
        time_us = values[stream.time]
        events.append(InputEvent(number, values[stream.id], time_us, arrival_us, record.partition, offset, values))
    return events


def told(broker: str, stream: DerivedStream) -> dict[str, dict[str, Any]]:
    """What a derived stream has, by id."""
    rows = [json.loads(record.value) for record in clean(broker, stream)]
    return {row[stream.id]: row for row in rows}


def wanted(app: App, broker: str, operation: StreamOperation) -> dict[str, dict[str, dict[str, Any]]]:
    """What each output of an operation should have, by its stream's name and by id."""
    outputs = app.derived_streams_of(operation)
    events = [event for number, one in enumerate(operation.inputs) for event in arrived(broker, number, one)]
    events.sort(key=lambda event: event.sort_key)
    rows = PureHost().play(operation, outputs, [*events, WatermarkStep(FOREVER_US)])
    return {
        one.name: {row[one.id]: json.loads(to_json_bytes(row, one.schema)) for row in rows[one.output]}
        for one in outputs
    }


def is_right(broker: str, stream: DerivedStream, rows: dict[str, dict[str, Any]]) -> bool:
    found = told(broker, stream)
    if stream.name == CORRECTED:
        return _net(found.values()) == _net(rows.values())
    if stream.name == REPLACED:
        return _newest(found.values()) == _newest(rows.values())
    return found == rows


def _net(rows: Any) -> dict[tuple[Any, ...], int]:
    """Final results and corrections minus retractions."""
    net: dict[tuple[Any, ...], int] = {}
    for row in rows:
        of = (row["user"], row["window_start"], row["window_end"], row["n"], row["most"])
        net[of] = net.get(of, 0) + (-1 if row["kind"] == "retraction" else 1)
    return {of: count for of, count in net.items() if count}


def _newest(rows: Any) -> dict[str, int]:
    """How many events each user has had."""
    newest: dict[str, int] = {}
    for row in rows:
        newest[row["user"]] = max(row["n"], newest.get(row["user"], 0))
    return newest


def endure(folder: Path, parts: Sequence[str], seed: int) -> None:
    app, dice = load_app(str(APP)), random.Random(seed)
    operations = [one for one in app.derivations if isinstance(one, StreamOperation)]
    assert len(operations) == 7
    with Running(APP, folder / "state", "--lake", "off", "--checkpoint", "10s") as running:
        running.wait_until_ready()
        load = Load(running.broker, seed)
        load.start()
        for part in parts:
            at_a_random_moment(dice)
            running.kill(part)
        load.finish()
        running.wait_until_ready()
        settled(running, app)
        for operation in operations:
            rows = wanted(app, running.broker, operation)
            for stream in app.derived_streams_of(operation):
                assert stream.output != "out" or rows[stream.name], stream.name
                right = lambda stream=stream, rows=rows: is_right(running.broker, stream, rows[stream.name])  # noqa: E731
                wait_until(right, 180, f"{stream.name} to be right", running.said)
        (derived,) = app.derived_streams_of(next(one for one in app.derivations if one.name == "doubled"))
        wait_until(lambda: is_doubled(running.broker, app, derived), 60, "what is doubled", running.said)


def settled(running: Running, app: App) -> None:
    """Wait until the gates have judged all that was sent."""
    offsets = OffsetClient(running.broker)
    for stream in (app.stream("taps"), app.stream("rates")):
        wait_until(
            lambda stream=stream: (
                sum(running.events(stream.name)[fate] for fate in ("clean", "late", "dead"))
                >= sum(offsets.topic_end_offsets([stream.name]).values())
            ),
            180,
            f"the gate of {stream.name}",
            running.said,
        )


def is_doubled(broker: str, app: App, derived: DerivedStream) -> bool:
    events = {json.loads(record.value)["id"]: json.loads(record.value) for record in clean(broker, app.stream("taps"))}
    amounts = {own_id: 2 * event["amount"] for own_id, event in events.items() if event["kind"] != "skip"}
    return {own_id: row["amount"] for own_id, row in told(broker, derived).items()} == amounts


@pytest.mark.shows("tumbling window", "global window", lane="micro-batch", late="side_output", kills=20)
@pytest.mark.shows("sliding window", lane="micro-batch", late="drop", kills=20)
@pytest.mark.shows("session window", lane="micro-batch", late="update", kills=20)
@pytest.mark.shows("stream-stream join", "as-of join", "pattern", lane="micro-batch", late="side_output", kills=20)
@pytest.mark.shows("derived function", lane="real-time", kills=20)
@pytest.mark.faults
@pytest.mark.timeout(3600)
def test_every_operator_tells_the_same_through_twenty_kills(tmp_path: Path) -> None:
    dice = random.Random(8)
    endure(tmp_path, [dice.choice(["operate", "spark", "operate", "stream", "broker"]) for _ in range(20)], seed=8)
