"""The check that never stops: a sample of entities is recomputed beside the stream, and what was served compared.

    payments.clean    ──▶ events of some entities, each id once ─┐
    CardSpend.served  ──▶ answers about them, a few seconds old ─┴─▶ checked, counted, told to the server's /metrics

Which entities is a matter of their key's hash: at first all of them; each time there are too many events, half as many.
"""

import json
import threading
import time
import zlib
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import pyarrow as pa

from headrace.declare.app import App
from headrace.declare.operands import REQUEST
from headrace.declare.schema import Kind
from headrace.declare.stream import Stream
from headrace.declare.views import View
from headrace.lake.checking import Findings, check
from headrace.lake.lookback import known_name, places_of
from headrace.lake.plain import ARROW_TYPES, events_table
from headrace.log.follow import Follower
from headrace.log.ledger import ARRIVAL, OFFSET
from headrace.log.produce import Producer
from headrace.log.progress import CheckProgress, report
from headrace.log.records import Record
from headrace.tiles.events import Event, read_event
from headrace.tiles.layout import lives_of

EVENTS_AT_MOST = 100_000
SETTLED_US = 3_000_000
CHECK_SECONDS = 10.0
KEY_IS_ITS_TEXT = {Kind.STRING, Kind.INTEGER}


class Sample:
    """Events of some entities of a view, and what was served about them and is not compared yet."""

    def __init__(self, view: View) -> None:
        self.view, self.findings = view, Findings()
        self._mask = 0
        self._streams = {stream.clean: stream for stream in view.streams}
        self._events: dict[tuple[str, Any], _Kept] = {}
        self._offsets: dict[tuple[str, int], int] = {}
        self._served: list[dict[str, Any]] = []
        self._versions = [layout.version for layout in lives_of(view)]

    @property
    def topics(self) -> tuple[str, ...]:
        """What it must be given: the clean events of each stream, and what was served."""
        return (*self._streams, self.view.served)

    def take(self, record: Record) -> None:
        """An event, unless it is a replay, a duplicate, or not of the sample."""
        offset, key, place = int(record.header(OFFSET) or -1), record.key or b"", (record.topic, record.partition)
        if offset <= self._offsets.get(place, -1):
            return
        self._offsets[place] = offset
        if self._holds(key):
            stream = self._streams[record.topic]
            event = read_event(stream.schema, record.value)
            kept = _Kept(key, stream, event, int(record.header(ARRIVAL) or 0))
            self._events.setdefault((stream.name, event[stream.id]), kept)
        while len(self._events) > EVENTS_AT_MOST:
            self._mask = self._mask << 1 | 1
            self._events = {name: kept for name, kept in self._events.items() if self._holds(kept.key)}

    def was_served(self, record: Record) -> None:
        """An answer, to be compared once what it was made of must have come by here."""
        answer = json.loads(record.value or b"{}")  # not orjson, for which a sum beyond 64 bits is a double
        if answer.get("versions") == self._versions:
            self._served.append(answer | {"row": json.dumps(answer["row"])})

    def compare(self, until_us: int) -> None:
        """Compare what was served by a time."""
        due = [answer for answer in self._served if answer["at"] <= until_us]
        self._served = [answer for answer in self._served if answer["at"] > until_us]
        mine = [answer for answer in due if self._holds(str(answer["entity"][0]).encode())]
        if mine:
            self.findings.add(
                check(self.view, self._table({answer["entity"][0] for answer in mine}), self._asked(mine))
            )

    def _holds(self, key: bytes) -> bool:
        return zlib.crc32(key) & self._mask == 0

    def _table(self, entities: set[Any]) -> pa.Table:
        (by,) = self.view.by
        kept = [one for one in self._events.values() if one.event[by] in entities]
        return pa.concat_tables(self._table_of(stream, kept) for stream in self.view.streams)

    def _table_of(self, stream: Stream, kept: Sequence["_Kept"]) -> pa.Table:
        own = [one for one in kept if one.stream == stream]
        return events_table(self.view, stream, [one.event for one in own], [one.arrival_us for one in own])

    def _asked(self, answers: Sequence[Mapping[str, Any]]) -> pa.Table:
        (entity,) = self.view.entity
        columns = {"e0": pa.array([answer["entity"][0] for answer in answers], ARROW_TYPES[entity.kind])}
        columns |= {"hr_at": pa.array([answer["at"] for answer in answers], pa.int64())}
        columns |= {"hr_row": pa.array([answer["row"] for answer in answers])}
        for number, place in enumerate(places_of(self.view)):
            for part, name in enumerate(("events", "known")):
                known = [answer["known"][number][part] for answer in answers]
                columns[known_name(name, *place)] = pa.array(known, pa.int64())
        for number, column in enumerate(self.view.requested):
            asked = [answer["request"].get(column.name.removeprefix(REQUEST)) for answer in answers]
            columns[f"r{number}"] = pa.array(asked, ARROW_TYPES[column.kind])
        return pa.table(columns)


class _Kept(NamedTuple):
    key: bytes
    stream: Stream
    event: Event
    arrival_us: int


def watched(app: App) -> list[View]:
    """The views that are checked all the while: those by their streams' key, of which records tell without reading."""
    return [
        view
        for view in app.views
        if not view.reads_rows_of
        and {(stream.key,) for stream in view.streams} == {view.by}
        and view.entity[0].kind in KEY_IS_ITS_TEXT
    ]


def watch_until(app: App, broker: str, stop: threading.Event) -> None:
    """Compare what is served, until `stop` is set."""
    samples = [Sample(view) for view in watched(app)]
    if not samples:
        stop.wait()
        return
    began_us = time.time_ns() // 1000
    lock = threading.Lock()

    def take(records: list[Record]) -> None:
        with lock:
            for record in records:
                _hand(samples, record, began_us)

    topics = [topic for sample in samples for topic in sample.topics]
    with Follower(broker, list(dict.fromkeys(topics)), take, patient=True) as follower, Producer(broker) as producer:
        while not stop.wait(CHECK_SECONDS):
            follower.raise_failure()
            if follower.caught_up:
                with lock:
                    _compare(samples, producer)


def _hand(samples: Sequence[Sample], record: Record, began_us: int) -> None:
    for sample in samples:
        if record.topic == sample.view.served:
            if record.appended_us >= began_us:
                sample.was_served(record)
        elif record.topic in sample.topics:
            sample.take(record)


def _compare(samples: Sequence[Sample], producer: Producer) -> None:
    now_us = time.time_ns() // 1000
    for sample in samples:
        sample.compare(now_us - SETTLED_US)
        report(producer, CheckProgress(sample.view.name, now_us, sample.findings.rows, sample.findings.outcomes))
