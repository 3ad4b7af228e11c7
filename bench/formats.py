"""Section formats: the same events in JSON and in Avro, turn by turn, from the producer through the gate.

producer ─▶ Kafka ─▶ gate ─▶ Kafka ─▶ reader      Avro through three versions of its schema, in flight at once
   ├───────────── an event's delay ─────────┤
"""

import json
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import asdict
from datetime import UTC, datetime

import orjson

import headrace as hr
from bench.errors import BenchFailed, Skipped
from bench.percentiles import Spread
from bench.results import Goal, Result, Table
from bench.section import Run
from bench.waiting import wait_for
from headrace.declare.app import App
from headrace.declare.streams.encoding import Format
from headrace.declare.streams.stream import Stream
from headrace.embedded_servers.broker import EmbeddedBroker
from headrace.embedded_servers.jars import jar_paths
from headrace.embedded_servers.java import JavaMissing, find_java
from headrace.embedded_servers.schema_registry import EmbeddedSchemaRegistry
from headrace.kafka.consumers.tailing_consumer import TailingConsumer
from headrace.kafka.producer.producer import Producer
from headrace.kafka.record import ConsumerRecord
from headrace.kafka.schema_registry.record_encoder import AvroEncoder, register_encoder
from headrace.kafka.schema_registry.registry_client import create_registry_client
from headrace.spark.execution.app_queries import StreamingConfig
from headrace.spark.execution.query_manager import SparkOptions, run_queries

RATE = 200  # events a second, of each format
WARM_UP_S, MEASURED_S = {"full": 45.0, "quick": 20.0}, {"full": 60.0, "quick": 15.0}
READY_LIMIT_S = 240.0
MOST_TIMES = 1.5
COLUMNS = "id string, card string, merchant string, amount double, channel string, at timestamp"
BASE = [{"name": name, "type": "string"} for name in ("id", "card", "merchant")]
AT = {"name": "at", "type": {"type": "long", "logicalType": "timestamp-micros"}}
CHANNEL = {"name": "channel", "type": ["null", "string"], "default": None}
VERSIONS = (
    [*BASE, {"name": "amount", "type": "float"}, AT],
    [*BASE, {"name": "amount", "type": "double"}, AT],
    [*BASE, {"name": "amount", "type": "double"}, AT, CHANNEL],
)
NOTE = (
    "{rate} events a second of each format, turn by turn, everything on this machine; warmed up for {warm_up:g} s, "
    "measured for {measured:g} s. Each format has a stream and a gate of its own, both in one Spark. The delay is from "
    "handing an event to the producer until its JSON is read from the clean topic."
)
Found = Mapping[Format, Spread]


def measure(run: Run) -> Result:
    """Run the section."""
    size = "quick" if run.quick else "full"
    with ExitStack() as stack:
        broker = stack.enter_context(EmbeddedBroker(run.folder / "state", port=0)).address
        try:
            url = stack.enter_context(EmbeddedSchemaRegistry(run.folder / "state", port=0)).url
        except JavaMissing as missing:
            raise Skipped(str(missing)) from missing
        race = Race(broker, url)
        run.say("starting Spark")
        stack.enter_context(_gates(race, run))
        stack.enter_context(TailingConsumer(broker, [stream.clean for stream in race.streams.values()], race.take))
        race.send(1.0)
        wait_for(lambda: race.came("json") and race.came("avro"), READY_LIMIT_S, "the first events to come through")
        run.say(f"warming up for {WARM_UP_S[size]:g} s")
        race.send(WARM_UP_S[size])
        race.delays.clear()
        run.say(f"measuring for {MEASURED_S[size]:g} s")
        sent = race.send(MEASURED_S[size])
        wait_for(lambda: len(race.delays) >= 2 * sent, 60, "all events to come through")
    return result(race.spreads(), WARM_UP_S[size], MEASURED_S[size])


class Race:
    """One stream per format, and the delay of each event."""

    def __init__(self, broker: str, registry: str) -> None:
        settings = {"id": "id", "key": "card", "time": "at"}
        self.streams: dict[Format, Stream] = {
            "json": hr.Stream("in-json", schema=COLUMNS, **settings),
            "avro": hr.Stream("in-avro", schema=COLUMNS, format="avro", registry=registry, **settings),
        }
        self.broker, self.delays = broker, dict[str, float]()
        self._encoders = _encoders(registry)
        self._sent: dict[str, float] = {}
        self._number = 0

    def send(self, seconds: float) -> int:
        """Send events at a rate for a duration; returns the number per format."""
        began, count = time.monotonic(), int(seconds * RATE)
        with Producer(self.broker) as producer:
            for turn in range(count):
                self._pause_until(began + turn / RATE)
                for format_ in ("json", "avro"):
                    self._send(producer, format_)
        return count

    def _pause_until(self, due: float) -> None:
        time.sleep(max(0.0, due - time.monotonic()))

    def _send(self, producer: Producer, format_: Format) -> None:
        self._number += 1
        event = {"id": f"{format_}-{self._number}", "card": f"c{self._number % 997}", "merchant": "m7"}
        event |= {"amount": float(self._number % 50), "channel": "web", "at": datetime.now(UTC)}  # type: ignore[dict-item]
        self._sent[event["id"]] = time.monotonic()
        value = self._encoders[self._number % 3].encode(event) if format_ == "avro" else event
        producer.send(self.streams[format_].name, value, key=event["card"])

    def take(self, records: list[ConsumerRecord]) -> None:
        now = time.monotonic()
        for record in records:
            event_id = orjson.loads(record.value or b"{}")["id"]
            if event_id in self._sent:
                self.delays[event_id] = (now - self._sent.pop(event_id)) * 1000

    def came(self, format_: Format) -> int:
        """The number of events of a format that have arrived."""
        return sum(event_id.startswith(format_) for event_id in list(self.delays))

    def spreads(self) -> Found:
        delays = dict(self.delays)
        formats: tuple[Format, ...] = ("json", "avro")
        return {one: Spread.of([ms for event_id, ms in delays.items() if event_id.startswith(one)]) for one in formats}


def _encoders(registry: str) -> list[AvroEncoder]:
    texts = (json.dumps({"type": "record", "name": "Payment", "fields": fields}) for fields in VERSIONS)
    return [register_encoder(create_registry_client(registry), "in-avro-value", text) for text in texts]


@contextmanager
def _gates(race: Race, run: Run) -> Iterator[None]:
    """The gates of all streams, in one Spark."""
    stop, failure = threading.Event(), list[BaseException]()
    app = App("formats", tuple(race.streams.values()), ())
    options = SparkOptions(None, jar_paths("spark"), find_java().home)

    def work() -> None:
        try:
            run_queries(app, StreamingConfig(race.broker, run.folder / "state"), options, stop)
        except BaseException as why:  # noqa: BLE001  # raised in the waiting thread
            failure.append(why)

    thread = threading.Thread(target=work, name="gates", daemon=True)
    thread.start()
    try:
        yield
    finally:
        stop.set()
        thread.join(60)
    if failure:
        raise BenchFailed(f"The gates failed: {failure[0]}")


def result(found: Found, warm_up: float, measured: float) -> Result:
    """The section's table, goal and figures."""
    rows = [
        [one, *(f"{value:.1f} ms" for value in (spread.p50, spread.p90, spread.p99)), str(spread.count)]
        for one, spread in found.items()
    ]
    times = found["avro"].p50 / found["json"].p50
    return Result(
        section="formats",
        table=Table(["producer to clean", "P50", "P90", "P99", "events"], rows),
        figures={one: asdict(spread) for one, spread in found.items()},
        goals=[Goal(f"Avro within {MOST_TIMES:g} times JSON's P50", f"{times:.2f} ×", times <= MOST_TIMES)],
        notes=[NOTE.format(rate=RATE, warm_up=warm_up, measured=measured)],
    )
