"""One event's whole way, found in the log by its id: arrived, judged, folded into tiles, scored, labelled.

payments-0@42 ──▶ payments.clean-0@41 ──▶ CardSpend.tiles   n 3 → 4, before and after
                                      ──▶ fraud.predictions  score, version, vector
                                      ──▶ chargebacks.clean  label

Everything is read from the topics themselves, from a time on; nobody keeps an index. What compaction has taken of the
earlier values of a tile cannot be told any more.
"""

from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

import orjson

from headrace.declare.app import App
from headrace.declare.changes import LSN, Changes
from headrace.declare.model import Model
from headrace.declare.stream import Stream
from headrace.declare.views import View
from headrace.log.between import records_between
from headrace.log.ledger import ARRIVAL, OFFSET, reason_of
from headrace.log.offsets import Offsets
from headrace.log.records import Record
from headrace.log.topics import fates_of
from headrace.log.traceparent import TRACEPARENT, traceparent_of
from headrace.tiles.events import Event, Unreadable, read_event
from headrace.tiles.fold import events_of, fold
from headrace.tiles.frequent import key_text
from headrace.tiles.layout import HopLayout, fed_by, salted
from headrace.tiles.salt import salt_of
from headrace.tiles.tile import TileKey, decode_key

SHOWN_TEXT = 400
CLOCKS_APART_US = 10_000_000  # of the brokers that lead two topics: what follows may have the earlier time


class Step(NamedTuple):
    """One step of an event: what happened, in which place of the log, when the log took it, and what is known of it."""

    what: str
    place: str
    at_us: int
    said: Mapping[str, Any]


class Judged(NamedTuple):
    """What the gate made of a raw record."""

    fate: Record
    arrival_us: int


class Tracer:
    """Finds the ways of events in an app's topics, in what came since a time."""

    def __init__(self, app: App, broker: str, since_us: int) -> None:
        self._app, self._broker, self._since_us = app, broker, since_us
        self._offsets = Offsets(broker)

    def ways(self, event_id: str) -> Iterator[list[Step]]:
        """The way of each raw record with an id, or of the one at a place such as payments-0@42."""
        for stream in self._app.streams:
            counted: str | None = None
            for raw in self._raw(stream, event_id):
                way = [*self._way(stream, raw, counted)]
                counted = counted or next((raw.place for step in way if step.what == "clean"), None)
                yield way

    def _raw(self, stream: Stream, event_id: str) -> Iterator[Record]:
        """The raw records of an event; where they are no JSON, by what the gate has made of them."""
        read = set[tuple[int, bytes | None]]()
        if stream.encoded is not None:
            judged = (one for topic in (stream.clean, stream.late_topic) for one in self._since(topic, self._since_us))
            read = {(one.partition, one.header(OFFSET)) for one in judged if _is_of(stream, one, event_id)}
        for raw in self._since(stream.name, self._since_us):
            is_read = (raw.partition, b"%d" % raw.offset) in read
            if raw.place == event_id or is_read or (stream.encoded is None and _is_of(stream, raw, event_id)):
                yield raw

    def _way(self, stream: Stream, raw: Record, counted: str | None) -> Iterator[Step]:
        """The steps of a raw record; of an id that was clean before, `counted` is where."""
        said = {"stream": stream.name, "value": _text(raw.value), **_trace_of(raw)}
        yield Step("arrived", raw.place, raw.appended_us, said)
        judged = self._judged(stream, raw)
        if judged is None:
            return
        fate = judged.fate.topic.removeprefix(f"{stream.name}.")
        why = {"reason": reason_of(judged.fate)} if fate == "dead" else {"repeats": counted} if counted else {}
        told: dict[str, Any] = {"arrival_us": judged.arrival_us, **why, **_trace_of(judged.fate)}
        yield Step(fate, judged.fate.place, judged.fate.appended_us, told)
        if fate == "clean" and counted is None:
            # Tiles of several views and the score come to several topics, in no order: a score that was due before its
            # tiles had come is in the log before them.
            yield from sorted(self._counted(stream, raw, judged), key=lambda step: step.at_us)

    def _judged(self, stream: Stream, raw: Record) -> Judged | None:
        """What became of a raw record, if the gate has come to it: each fate keeps its partition and its offset."""
        for topic in fates_of(stream):
            for record in self._since(topic, raw.appended_us - CLOCKS_APART_US, raw.partition):
                if record.header(OFFSET) == b"%d" % raw.offset:
                    return Judged(record, int(record.header(ARRIVAL) or raw.appended_us))
        return None

    def _counted(self, stream: Stream, raw: Record, judged: Judged) -> Iterator[Step]:
        event = read_event(stream.schema, judged.fate.value)  # of captured changes the raw one is an envelope
        for view in self._app.views_of(stream):
            yield from self._folded(view, stream, event, judged.arrival_us)
        for model in self._app.models:
            if model.stream == stream:
                yield from self._scored(model, event[stream.id], raw.appended_us - CLOCKS_APART_US)

    def _folded(self, view: View, stream: Stream, event: Event, arrival_us: int) -> Iterator[Step]:
        """The first value of each of its tiles that has it, beside the one before."""
        part = salt_of(key_text(event[stream.id]), view.salt)
        own = [salted(layout, view)[part] for layout in fed_by(stream, view)]
        layouts = {layout.version: layout for layout in own}
        touched = {key for key, _ in fold(view, events_of(view, stream, [event], [arrival_us]), own)}
        before: dict[TileKey, dict[str, Any]] = {}
        for record in self._since(view.topic, self._since_us):
            key = decode_key(record.key or b"{}")
            if key not in touched or record.value is None:
                continue
            tile = orjson.loads(record.value)
            if tile["a"] < arrival_us:
                before[key] = tile
                continue
            touched.remove(key)
            said = {"view": view.name, "entity": list(key.entity), "hop_us": key.hop_us, "start_us": key.start_us}
            changed = _changed(layouts[key.version], before.get(key, {}), tile)
            yield Step("folded", record.place, record.appended_us, said | {"changed": changed})

    def _scored(self, model: Model, event_id: Any, from_us: int) -> Iterator[Step]:
        """Its predictions and labels; of several by one version in one role the first counts, here as everywhere."""
        counted = set[tuple[Any, ...]]()
        for record in self._since(model.predictions, from_us):
            said = orjson.loads(record.value or b"{}")
            by = said.get("version"), said.get("role"), said.get("source")
            if said.get("event_id") == event_id and by not in counted:
                counted.add(by)
                what = "scored" if said.get("role") == "champion" else f"scored by a {said.get('role')}"
                yield Step(what, record.place, record.appended_us, {"model": model.name, **said, **_trace_of(record)})
        if model.labels is not None:
            labels = model.labels.stream
            for record in self._since(labels.clean, self._since_us):
                if _is_of(labels, record, str(event_id)):
                    value = read_event(labels.schema, record.value)[model.labels.value]
                    yield Step("labelled", record.place, record.appended_us, {"model": model.name, "label": value})

    def _since(self, topic: str, at_us: int, partition: int | None = None) -> Iterator[Record]:
        """What a topic took since a time, or one partition of it."""
        ends = self._offsets.end([topic])
        starts = dict(zip(sorted(ends), self._offsets.since(topic, at_us), strict=True))
        wanted = {at: end for at, end in ends.items() if partition is None or at.number == partition}
        return records_between(self._broker, {at: starts[at] for at in wanted}, wanted)


def _trace_of(record: Record) -> dict[str, str]:
    """The W3C trace that a record is part of."""
    trace = traceparent_of(record.header(TRACEPARENT))
    return {} if trace is None else {TRACEPARENT: trace.decode()}


def _is_of(stream: Stream, record: Record, event_id: str) -> bool:
    """Whether a record is of the event with an id; what cannot be read has none."""
    value = record.value or b""
    if isinstance(stream, Changes) and record.topic == stream.name:
        return _change_in(value, stream) == event_id
    if event_id.isascii() and event_id.encode() not in value:
        return False
    try:
        return str(read_event(stream.schema, value)[stream.id]) == event_id
    except Unreadable:
        return _id_in(value, stream) == event_id


def _id_in(value: bytes, stream: Stream) -> str | None:
    """The id of what is JSON, and yet no event."""
    try:
        found = orjson.loads(value)
    except ValueError:
        return None
    return str(found.get(stream.id)) if isinstance(found, dict) else None


def _change_in(value: bytes, stream: Changes) -> str | None:
    """The id of a captured change, as the gate makes it of its envelope; of PostgreSQL's alone."""
    try:
        said = orjson.loads(value)
        row = said["before" if said["op"] == "d" else "after"]
        return f"{said['source'][LSN]}/{said['op']}/{row[stream.key]}"
    except (ValueError, KeyError, TypeError):  # no change
        return None


def _changed(layout: HopLayout, before: dict[str, Any], after: dict[str, Any]) -> dict[str, list[Any]]:
    """The partials of a tile that are others now, as they were and as they are."""
    return {
        called: [_shown(before.get(name)), _shown(after[name])]
        for name, called in ({"n": "events"} | _names(layout)).items()
        if name in after and before.get(name) != after[name]
    }


def _names(layout: HopLayout) -> dict[str, str]:
    """What the fields of a tile in the changelog are called here."""
    named = ((f"{suffix}{number}", layout.slots[number], suffix) for number, suffix, _ in layout.columns())
    return {
        name: f"{slot.partial.value} {slot.column or ''} {suffix}".replace("  ", " ") for name, slot, suffix in named
    }


def _shown(value: Any) -> Any:
    return f"{value[:12]}…" if isinstance(value, str) and len(value) > 40 else value


def _text(value: bytes | None) -> str:
    return (value or b"").decode(errors="backslashreplace")[:SHOWN_TEXT]
