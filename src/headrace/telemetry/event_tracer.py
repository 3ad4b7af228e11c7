"""The steps of one event, found in the log by its id: arrived, classified, folded into tiles, scored, labelled.

payments-0@42 ──▶ payments.clean-0@41 ──▶ CardSpend.tiles   n 3 → 4, before and after
                                      ──▶ fraud.predictions  score, version, vector
                                      ──▶ chargebacks.clean  label

Steps are read from the topics themselves, from a time on; there is no index. Earlier values of a tile that compaction
has removed cannot be shown.
"""

from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

import orjson

from headrace.aggregates.sketches.frequent_items import key_text
from headrace.declare.app import App
from headrace.declare.features.view import View
from headrace.declare.models.model import Model
from headrace.declare.streams.change_capture import LSN, Changes
from headrace.declare.streams.stream import Stream
from headrace.kafka.consumers.offset_range import read_offset_range
from headrace.kafka.headers import ARRIVAL_HEADER, OFFSET_HEADER, TRACEPARENT_HEADER
from headrace.kafka.ledger import dead_letter_reason
from headrace.kafka.offsets import OffsetClient
from headrace.kafka.record import ConsumerRecord
from headrace.kafka.topics import fate_topics
from headrace.tiles.events.event_parser import Event, InvalidEventError, parse_event
from headrace.tiles.fold import fold_into_tiles, to_event_columns
from headrace.tiles.layout import HopLayout, salted_layouts, stream_layouts
from headrace.tiles.salt import salt_bucket
from headrace.tiles.tile import FeatureTileKey, decode_key

MAX_SHOWN_TEXT = 400
CLOCK_SKEW_US = 10_000_000  # between the leaders of two topics: a later record may have the earlier time


class TraceStep(NamedTuple):
    """One step of an event: what happened, at which topic-partition@offset, when it was appended, and its details."""

    what: str
    place: str
    at_us: int
    said: Mapping[str, Any]


class GateResult(NamedTuple):
    """The record that the gate wrote for a raw record."""

    record: ConsumerRecord
    arrival_us: int


class EventTracer:
    """Finds the steps of events in an app's topics, in records since a time."""

    def __init__(self, app: App, broker: str, since_us: int) -> None:
        self._app, self._broker, self._since_us = app, broker, since_us
        self._offsets = OffsetClient(broker)

    def trace_event(self, event_id: str) -> Iterator[list[TraceStep]]:
        """The steps of each raw record with an id, or of the one at an offset such as payments-0@42."""
        for stream in self._app.streams:
            clean_place: str | None = None
            for raw in self._find_raw_records(stream, event_id):
                steps = [*self._trace_record(stream, raw, clean_place)]
                clean_place = clean_place or next((raw.location for step in steps if step.what == "clean"), None)
                yield steps

    def _find_raw_records(self, stream: Stream, event_id: str) -> Iterator[ConsumerRecord]:
        """The raw records of an event; those that are not JSON are found by the gate's records."""
        matching_offsets = set[tuple[int, int | None]]()
        if stream.encoding is not None:
            gate_records = (
                record
                for topic in (stream.clean, stream.late_topic)
                for record in self._records_since(topic, self._since_us)
            )
            matching_offsets = {
                (one.partition, OFFSET_HEADER.read(one)) for one in gate_records if _has_event_id(stream, one, event_id)
            }
        for raw in self._records_since(stream.name, self._since_us):
            is_match = (raw.partition, raw.offset) in matching_offsets
            if (
                raw.location == event_id
                or is_match
                or (stream.encoding is None and _has_event_id(stream, raw, event_id))
            ):
                yield raw

    def _trace_record(self, stream: Stream, raw: ConsumerRecord, clean_place: str | None) -> Iterator[TraceStep]:
        """The steps of a raw record; `clean_place` is the location of an earlier clean record with its id."""
        details = {"stream": stream.name, "value": _decode_value(raw.value), **_trace_context(raw)}
        yield TraceStep("arrived", raw.location, raw.appended_us, details)
        gate_result = self._find_gate_result(stream, raw)
        if gate_result is None:
            return
        fate = gate_result.record.topic.removeprefix(f"{stream.name}.")
        outcome = (
            {"reason": dead_letter_reason(gate_result.record)}
            if fate == "dead"
            else {"repeats": clean_place}
            if clean_place
            else {}
        )
        gate_details: dict[str, Any] = {
            "arrival_us": gate_result.arrival_us,
            **outcome,
            **_trace_context(gate_result.record),
        }
        yield TraceStep(fate, gate_result.record.location, gate_result.record.appended_us, gate_details)
        if fate == "clean" and clean_place is None:
            # Tiles of several views and the score come to several topics, in no order: a score that was due before its
            # tiles had come is in the log before them.
            yield from sorted(self._downstream_steps(stream, raw, gate_result), key=lambda step: step.at_us)

    def _find_gate_result(self, stream: Stream, raw: ConsumerRecord) -> GateResult | None:
        """The gate's record for a raw record, if there is one: each fate keeps its partition and its offset."""
        for topic in fate_topics(stream):
            for record in self._records_since(topic, raw.appended_us - CLOCK_SKEW_US, raw.partition):
                if OFFSET_HEADER.read(record) == raw.offset:
                    return GateResult(record, ARRIVAL_HEADER.read_or(record, raw.appended_us))
        return None

    def _downstream_steps(self, stream: Stream, raw: ConsumerRecord, gate_result: GateResult) -> Iterator[TraceStep]:
        event = parse_event(stream.schema, gate_result.record.value)  # a captured change's raw record is an envelope
        for view in self._app.views_of(stream):
            yield from self._tile_steps(view, stream, event, gate_result.arrival_us)
        for model in self._app.models:
            if model.stream == stream:
                yield from self._model_steps(model, event[stream.id], raw.appended_us - CLOCK_SKEW_US)

    def _tile_steps(self, view: View, stream: Stream, event: Event, arrival_us: int) -> Iterator[TraceStep]:
        """The first value of each tile that contains the event, next to the one before."""
        salt = salt_bucket(key_text(event[stream.id]), view.salt)
        hop_layouts = [salted_layouts(layout, view)[salt] for layout in stream_layouts(stream, view)]
        layouts = {layout.version: layout for layout in hop_layouts}
        open_keys = {
            key for key, _ in fold_into_tiles(view, to_event_columns(view, stream, [event], [arrival_us]), hop_layouts)
        }
        previous_tiles: dict[FeatureTileKey, dict[str, Any]] = {}
        for record in self._records_since(view.topic, self._since_us):
            key = decode_key(record.key or b"{}")
            if key not in open_keys or record.value is None:
                continue
            tile = orjson.loads(record.value)
            if tile["a"] < arrival_us:
                previous_tiles[key] = tile
                continue
            open_keys.remove(key)
            details = {"view": view.name, "entity": list(key.entity), "hop_us": key.hop_us, "start_us": key.start_us}
            changed = _changed_partials(layouts[key.version], previous_tiles.get(key, {}), tile)
            yield TraceStep("folded", record.location, record.appended_us, details | {"changed": changed})

    def _model_steps(self, model: Model, event_id: Any, from_us: int) -> Iterator[TraceStep]:
        """Its predictions and labels; of several by one version in one role the first counts, as everywhere."""
        seen_scorers = set[tuple[Any, ...]]()
        for record in self._records_since(model.predictions, from_us):
            prediction = orjson.loads(record.value or b"{}")
            scorer = prediction.get("version"), prediction.get("role"), prediction.get("source")
            if prediction.get("event_id") == event_id and scorer not in seen_scorers:
                seen_scorers.add(scorer)
                step_name = (
                    "scored" if prediction.get("role") == "champion" else f"scored by a {prediction.get('role')}"
                )
                yield TraceStep(
                    step_name,
                    record.location,
                    record.appended_us,
                    {"model": model.name, **prediction, **_trace_context(record)},
                )
        if model.labels is not None:
            label_stream = model.labels.stream
            for record in self._records_since(label_stream.clean, self._since_us):
                if _has_event_id(label_stream, record, str(event_id)):
                    value = parse_event(label_stream.schema, record.value)[model.labels.value]
                    yield TraceStep(
                        "labelled", record.location, record.appended_us, {"model": model.name, "label": value}
                    )

    def _records_since(self, topic: str, at_us: int, partition: int | None = None) -> Iterator[ConsumerRecord]:
        """The records of a topic, or of one partition, since a time."""
        ends = self._offsets.topic_end_offsets([topic])
        starts = dict(zip(sorted(ends), self._offsets.offsets_for_time(topic, at_us), strict=True))
        selected_ends = {
            topic_partition: end
            for topic_partition, end in ends.items()
            if partition is None or topic_partition.number == partition
        }
        return read_offset_range(self._broker, {at: starts[at] for at in selected_ends}, selected_ends)


def _trace_context(record: ConsumerRecord) -> dict[str, str]:
    """The W3C trace context of a record."""
    trace = TRACEPARENT_HEADER.read(record)
    return {} if trace is None else {TRACEPARENT_HEADER.name: trace.decode()}


def _has_event_id(stream: Stream, record: ConsumerRecord, event_id: str) -> bool:
    """Whether a record is of the event with an id; an unreadable record has none."""
    value = record.value or b""
    if isinstance(stream, Changes) and record.topic == stream.name:
        return _change_event_id(value, stream) == event_id
    if event_id.isascii() and event_id.encode() not in value:
        return False
    try:
        return str(parse_event(stream.schema, value)[stream.id]) == event_id
    except InvalidEventError:
        return _json_event_id(value, stream) == event_id


def _json_event_id(value: bytes, stream: Stream) -> str | None:
    """The id of a record that is JSON but not a valid event."""
    try:
        content = orjson.loads(value)
    except ValueError:
        return None
    return str(content.get(stream.id)) if isinstance(content, dict) else None


def _change_event_id(value: bytes, stream: Changes) -> str | None:
    """The id of a captured change, as the gate derives it from the envelope; for PostgreSQL only."""
    try:
        envelope = orjson.loads(value)
        row = envelope["before" if envelope["op"] == "d" else "after"]
        return f"{envelope['source'][LSN]}/{envelope['op']}/{row[stream.key]}"
    except (ValueError, KeyError, TypeError):  # not a change
        return None


def _changed_partials(layout: HopLayout, before: dict[str, Any], after: dict[str, Any]) -> dict[str, list[Any]]:
    """The partials of a tile that changed, with their values before and after."""
    return {
        title: [_shorten(before.get(name)), _shorten(after[name])]
        for name, title in ({"n": "events"} | _partial_names(layout)).items()
        if name in after and before.get(name) != after[name]
    }


def _partial_names(layout: HopLayout) -> dict[str, str]:
    """The names shown for the fields of a tile in the changelog."""
    columns = ((f"{suffix}{number}", layout.slots[number], suffix) for number, suffix, _ in layout.columns())
    return {
        name: f"{slot.partial.name} {slot.column or ''} {suffix}".replace("  ", " ") for name, slot, suffix in columns
    }


def _shorten(value: Any) -> Any:
    return f"{value[:12]}…" if isinstance(value, str) and len(value) > 40 else value


def _decode_value(value: bytes | None) -> str:
    return (value or b"").decode(errors="backslashreplace")[:MAX_SHOWN_TEXT]
