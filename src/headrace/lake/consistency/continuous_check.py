"""The continuous consistency check: recomputes a sample of entities from the stream, and compares served values.

    payments.clean    ──▶ events of some entities, each id once ─┐
    CardSpend.served  ──▶ answers about them, a few seconds old ─┴─▶ checked, counted, told to the server's /metrics

Entities are sampled by the hash of their key: at first all of them; each time there are too many events, half as many.
"""

import json
import threading
import time
import zlib
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import pyarrow as pa

from headrace.declare.app import App
from headrace.declare.features.operands import REQUEST_PREFIX
from headrace.declare.features.view import View
from headrace.declare.streams.schema import Kind
from headrace.declare.streams.stream import Stream
from headrace.kafka.consumers.tailing_consumer import TailingConsumer
from headrace.kafka.headers import ARRIVAL_HEADER, OFFSET_HEADER
from headrace.kafka.producer.producer import Producer
from headrace.kafka.record import ConsumerRecord
from headrace.kafka.status.heartbeat import publish_progress
from headrace.kafka.status.reports.lake import ConsistencyCheckProgress
from headrace.lake.arrow_events import ARROW_TYPES, to_events_table
from headrace.lake.consistency.value_comparison import CheckFindings, compare_served
from headrace.lake.historical_features import hop_streams, known_column
from headrace.tiles.events.event_parser import Event, parse_event
from headrace.tiles.layout import live_layouts

MAX_EVENTS = 100_000
SETTLE_TIME_US = 3_000_000
CHECK_SECONDS = 10.0
TEXT_KEY_KINDS = {Kind.STRING, Kind.INTEGER}


class EntitySample:
    """Events of some entities of a view, and served rows about them that are not compared yet."""

    def __init__(self, view: View) -> None:
        self.view, self.findings = view, CheckFindings()
        self._hash_mask = 0
        self._streams = {stream.clean: stream for stream in view.streams}
        self._events: dict[tuple[str, Any], _SampledEvent] = {}
        self._last_offsets: dict[tuple[str, int], int] = {}
        self._served_rows: list[dict[str, Any]] = []
        self._versions = [layout.version for layout in live_layouts(view)]

    @property
    def topics(self) -> tuple[str, ...]:
        """The topics to read: the clean events of each stream, and the served log."""
        return (*self._streams, self.view.served)

    def add_event(self, record: ConsumerRecord) -> None:
        """Add an event, unless it is a replay, a duplicate, or not in the sample."""
        offset, key, partition = (
            OFFSET_HEADER.read_or(record, -1),
            record.key or b"",
            (record.topic, record.partition),
        )
        if offset <= self._last_offsets.get(partition, -1):
            return
        self._last_offsets[partition] = offset
        if self._is_sampled(key):
            stream = self._streams[record.topic]
            event = parse_event(stream.schema, record.value)
            sampled_event = _SampledEvent(key, stream, event, ARRIVAL_HEADER.read_or(record, 0))
            self._events.setdefault((stream.name, event[stream.id]), sampled_event)
        while len(self._events) > MAX_EVENTS:
            self._hash_mask = self._hash_mask << 1 | 1
            self._events = {event_key: kept for event_key, kept in self._events.items() if self._is_sampled(kept.key)}

    def add_served_row(self, record: ConsumerRecord) -> None:
        """Add a served row, to be compared once its events must have arrived here."""
        served_row = json.loads(record.value or b"{}")  # not orjson, for which a sum beyond 64 bits is a double
        if served_row.get("versions") == self._versions:
            self._served_rows.append(served_row | {"row": json.dumps(served_row["row"])})

    def compare_until(self, until_us: int) -> None:
        """Compare the rows that were served up to a time."""
        due_rows = [served_row for served_row in self._served_rows if served_row["at"] <= until_us]
        self._served_rows = [answer for answer in self._served_rows if answer["at"] > until_us]
        sampled_rows = [answer for answer in due_rows if self._is_sampled(str(answer["entity"][0]).encode())]
        if sampled_rows:
            self.findings.add(
                compare_served(
                    self.view,
                    self._events_table({answer["entity"][0] for answer in sampled_rows}),
                    self._served_table(sampled_rows),
                )
            )

    def _is_sampled(self, key: bytes) -> bool:
        return zlib.crc32(key) & self._hash_mask == 0

    def _events_table(self, entities: set[Any]) -> pa.Table:
        (entity_column,) = self.view.by
        sampled_events = [
            sampled_event for sampled_event in self._events.values() if sampled_event.event[entity_column] in entities
        ]
        return pa.concat_tables(self._stream_events_table(stream, sampled_events) for stream in self.view.streams)

    def _stream_events_table(self, stream: Stream, sampled_events: Sequence["_SampledEvent"]) -> pa.Table:
        stream_events = [sampled_event for sampled_event in sampled_events if sampled_event.stream == stream]
        return to_events_table(
            self.view, stream, [one.event for one in stream_events], [one.arrival_us for one in stream_events]
        )

    def _served_table(self, served_rows: Sequence[Mapping[str, Any]]) -> pa.Table:
        (entity,) = self.view.entity
        columns = {"e0": pa.array([served_row["entity"][0] for served_row in served_rows], ARROW_TYPES[entity.kind])}
        columns |= {"hr_at": pa.array([answer["at"] for answer in served_rows], pa.int64())}
        columns |= {"hr_row": pa.array([answer["row"] for answer in served_rows])}
        for number, hop_stream in enumerate(hop_streams(self.view)):
            for part_index, name in enumerate(("events", "known")):
                values = [answer["known"][number][part_index] for answer in served_rows]
                columns[known_column(name, *hop_stream)] = pa.array(values, pa.int64())
        for number, column in enumerate(self.view.request_columns):
            request_values = [answer["request"].get(column.name.removeprefix(REQUEST_PREFIX)) for answer in served_rows]
            columns[f"r{number}"] = pa.array(request_values, ARROW_TYPES[column.kind])
        return pa.table(columns)


class _SampledEvent(NamedTuple):
    key: bytes
    stream: Stream
    event: Event
    arrival_us: int


def continuously_checked_views(app: App) -> list[View]:
    """The views that are checked continuously: those by their streams' key, which a record has without parsing."""
    return [
        view
        for view in app.views
        if not view.tables_without_history
        and {(stream.key,) for stream in view.streams} == {view.by}
        and view.entity[0].kind in TEXT_KEY_KINDS
    ]


def check_until_stopped(app: App, broker: str, stop: threading.Event) -> None:
    """Compare served rows, until `stop` is set."""
    samples = [EntitySample(view) for view in continuously_checked_views(app)]
    if not samples:
        stop.wait()
        return
    started_us = time.time_ns() // 1000
    lock = threading.Lock()

    def handle_records(records: list[ConsumerRecord]) -> None:
        with lock:
            for record in records:
                _dispatch_record(samples, record, started_us)

    topics = [topic for sample in samples for topic in sample.topics]
    with (
        TailingConsumer(broker, list(dict.fromkeys(topics)), handle_records, is_latency_tolerant=True) as follower,
        Producer(broker) as producer,
    ):
        while not stop.wait(CHECK_SECONDS):
            follower.raise_failure()
            if follower.is_caught_up:
                with lock:
                    _compare_and_report(samples, producer)


def _dispatch_record(samples: Sequence[EntitySample], record: ConsumerRecord, started_us: int) -> None:
    for sample in samples:
        if record.topic == sample.view.served:
            if record.appended_us >= started_us:
                sample.add_served_row(record)
        elif record.topic in sample.topics:
            sample.add_event(record)


def _compare_and_report(samples: Sequence[EntitySample], producer: Producer) -> None:
    now_us = time.time_ns() // 1000
    for sample in samples:
        sample.compare_until(now_us - SETTLE_TIME_US)
        publish_progress(
            producer, ConsistencyCheckProgress(sample.view.name, now_us, sample.findings.rows, sample.findings.outcomes)
        )
