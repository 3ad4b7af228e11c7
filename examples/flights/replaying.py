"""Replays recordings together, at the speed of scoring.

recorded   ├── a slice ──┤├── a slice ──┤          both streams in the order of their reports
sent       ├▶             ├▶                       a slice at once; the next when all its departures have a score
scored        ├──▶           ├──▶
"""

import heapq
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from operator import attrgetter
from pathlib import Path
from threading import Condition
from typing import NamedTuple

import orjson
import pyarrow as pa
import pyarrow.parquet as pq
from truth import is_predicted

from headrace.declare.models.model import Model
from headrace.declare.streams.stream import Stream
from headrace.kafka.consumers.tailing_consumer import TailingConsumer
from headrace.kafka.producer.producer import Producer
from headrace.kafka.producer.recordings import open_recording
from headrace.kafka.record import ConsumerRecord

LIMIT_SECONDS = 120.0


class Due(NamedTuple):
    """An event of a recording: when it was reported, where it goes, and whether it gets a score."""

    at_us: int
    stream: str
    key: bytes | None
    value: bytes
    is_predicted: bool


def in_order(
    streams: Sequence[Stream], predicted: Stream, recordings: Mapping[str, pa.Table], folder: Path
) -> Iterator[Due]:
    """The events of all recordings in report order; those of `predicted` get a score unless late or duplicate."""
    return heapq.merge(
        *(_due(stream, recordings[stream.name], folder, stream is predicted) for stream in streams),
        key=attrgetter("at_us"),
    )


def _due(stream: Stream, events: pa.Table, folder: Path, are_predicted: bool) -> Iterator[Due]:
    file = folder / f"{stream.name}.parquet"
    pq.write_table(events, file)
    scored = is_predicted(stream, events).tolist() if are_predicted else [False] * len(events)
    for event, is_scored in zip(open_recording(stream, file).events(), scored, strict=True):
        yield Due(event.due_us or 0, stream.name, event.key, event.value, is_scored)


class Scores:
    """Consumes the predictions of a running model for events that arrived since a time."""

    def __init__(self, model: Model, broker: str, since_us: int) -> None:
        self.degraded: Counter[str] = Counter()
        self.events = 0
        self._since_us, self._more = since_us, Condition()
        self.follower = TailingConsumer(broker, [model.predictions], self._take)

    def _take(self, records: list[ConsumerRecord]) -> None:
        predictions = [orjson.loads(record.value or b"{}") for record in records]
        champions = [one for one in predictions if one["role"] == "champion" and one["arrival_us"] >= self._since_us]
        with self._more:
            self.events += len(champions)
            self.degraded.update(reason for one in champions for reason in one["degraded"])
            self._more.notify_all()

    def wait_for(self, events: int) -> None:
        """Wait until `events` events have a score."""
        with self._more:
            if not self._more.wait_for(lambda: self.events >= events, LIMIT_SECONDS):
                self.follower.raise_failure()
                raise SystemExit(f"{events - self.events} flights had no score after {LIMIT_SECONDS:g} s")


class Replay:
    """Sends events into the log, at most a slice of recorded time ahead of their scores."""

    def __init__(self, events: Iterator[Due], producer: Producer, slice_us: int) -> None:
        self.sent = self.predicted = 0
        self._events, self._producer, self._slice_us = events, producer, slice_us
        self._next = next(events, None)

    def rush_until(self, end_us: int) -> None:
        """Send all events reported before a time at once, without waiting for scores."""
        self._send(end_us)
        self._producer.flush()
        self.predicted = 0

    def until(self, end_us: int, scores: Scores) -> None:
        """Send the events reported before a time, slice by slice."""
        while self._next is not None and self._next.at_us < end_us:
            self._send(min(end_us, self._next.at_us + self._slice_us))
            scores.wait_for(self.predicted)
        self._producer.flush()

    def _send(self, end_us: int) -> None:
        while self._next is not None and self._next.at_us < end_us:
            self._producer.send(self._next.stream, self._next.value, key=self._next.key)
            self.sent += 1
            self.predicted += self._next.is_predicted
            self._next = next(self._events, None)
