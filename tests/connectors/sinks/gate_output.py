"""Clean events as a gate writes them: records with raw offsets, some rewritten, some sent twice."""

import random
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import count
from typing import Any

import orjson

import headrace as hr
from headrace.connectors.sinks.sink_part import SinkWorker, create_sink_writer
from headrace.connectors.sinks.writer import SinkConfig
from headrace.declare.sinks.sink import Sink
from headrace.kafka.headers import position_headers
from headrace.kafka.producer.producer import Producer
from headrace.kafka.topics import LOG_APPEND_TIME, TopicSpec
from tests.kafka.kafka_tools import create_topic

PARTITIONS = 2
SCHEMA = "id string, card string, amount double, big boolean, n bigint, at timestamp"
_numbers = count()


def new_stream(broker: str, name: str = "") -> hr.Stream:
    """A stream whose clean topic is there."""
    stream = hr.Stream(
        name or f"sunk{next(_numbers)}-{random.getrandbits(40)}", schema=SCHEMA, id="id", key="card", time="at"
    )
    create_topic(broker, TopicSpec(stream.clean, stream.clean, PARTITIONS, LOG_APPEND_TIME))
    return stream


def event(number: int, **changed: Any) -> dict[str, Any]:
    made = {"id": f"e{number}", "card": f"c{number % 7}", "amount": number / 4, "big": number % 3 == 0, "n": number}
    return made | {"at": f"2026-01-01T00:{number // 60 % 60:02d}:{number % 60:02d}.25Z"} | changed


class Gate:
    """Writes to the clean topic of a stream as its gate would."""

    def __init__(self, broker: str, stream: hr.Stream) -> None:
        self.stream, self._producer = stream, Producer(broker)
        self.sent: list[dict[str, Any]] = []
        self._written: list[tuple[int, int, bytes]] = []
        self._next = [0] * PARTITIONS

    def send(self, *events: dict[str, Any] | bytes) -> None:
        """Write events, each under a new raw offset."""
        for one in events:
            value = one if isinstance(one, bytes) else orjson.dumps(one)
            partition = 0 if isinstance(one, bytes) else int(str(one["card"])[1:]) % PARTITIONS
            self._next[partition] += 1
            self._written.append((partition, self._next[partition] - 1, value))
            self._write(*self._written[-1])
            self.sent += [] if isinstance(one, bytes) else [one]
        self._producer.flush()

    def replay(self, last: int) -> None:
        """Write the last records again, as a gate does that was killed."""
        for written in self._written[-last:]:
            self._write(*written)
        self._producer.flush()

    def first(self) -> dict[str, dict[str, Any]]:
        """The first event of each id."""
        return {one["id"]: one for one in reversed(self.sent)}

    def last(self) -> dict[str, dict[str, Any]]:
        """The last event of each card."""
        return {one["card"]: one for one in self.sent}

    def _write(self, partition: int, offset: int, value: bytes) -> None:
        headers = position_headers(offset, 1_767_225_600_000_000)
        self._producer.send(self.stream.clean, value, key=b"k", partition=partition, headers=headers)


class Flow(threading.Thread):
    """Produces events until it is stopped: with replays, and ids that are sent twice."""

    def __init__(self, gate: Gate, seed: int, pause_s: float = 0.02) -> None:
        super().__init__(daemon=True)
        self.gate, self._dice, self._pause_s = gate, random.Random(seed), pause_s
        self._enough = threading.Event()

    def run(self) -> None:
        number = 0
        while not self._enough.wait(self._pause_s):
            for _ in range(self._dice.randrange(1, 40)):
                again = self._dice.random() < 0.05 and number > 0
                self.gate.send(event(self._dice.randrange(number), amount=-1.0) if again else event(number))
                number += not again
            if self._dice.random() < 0.2:
                self.gate.replay(self._dice.randrange(1, 60))

    def finish(self) -> Gate:
        self._enough.set()
        self.join()
        return self.gate


@contextmanager
def sinking(sink: Sink, place: SinkConfig) -> Iterator[SinkWorker]:
    """A sink that runs; it has not failed at the end."""
    running = SinkWorker(sink, create_sink_writer(sink, place), place.broker)
    running.start()
    try:
        yield running
        running.raise_failure()
    finally:
        running.stop()
