"""The expected output of an app of the zoo, computed by loops over the raw log.

raw ──fates──▶ clean, late, dead, dropped ──pure operators──▶ windows, pairs, matches ──brute force──▶ served values
"""

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pyarrow as pa

from headrace.declare.app import App
from headrace.declare.features.view import View
from headrace.declare.models.model import Model
from headrace.declare.operations.derived_stream import DerivedStream, StreamOperation, has_recorded_input
from headrace.declare.streams.change_capture import Changes
from headrace.declare.streams.schema import Kind
from headrace.declare.streams.stream import Stream
from headrace.kafka.consumers.offset_range import read_offset_range
from headrace.kafka.headers import ARRIVAL_HEADER, OFFSET_HEADER
from headrace.kafka.offsets import OffsetClient
from headrace.kafka.record import ConsumerRecord
from headrace.lake.ingestion.table_mapping import OFFSET as LANDED_OFFSET
from headrace.lake.ingestion.table_mapping import PARTITION, table_mappings
from headrace.operators.operator import InputEvent
from headrace.spark.stateful.output_encoding import to_json_bytes
from headrace.testing.scripts.pure_host import PureHost
from headrace.testing.scripts.steps import WatermarkStep
from headrace.tiles.events.event_parser import parse_event
from tests.apps.traffic import Traffic, canonical
from tests.e2e.test_every_served_value import agrees
from tests.lake.read_back import read_back
from tests.oracle import brute
from tests.oracle.streams import SECOND_US, Sent
from tests.running import Running

FOREVER_US = 4_000_000_000_000_000
REQUEST = 30.0
Event = dict[str, Any]


def records_of(broker: str, topic: str) -> list[ConsumerRecord]:
    offsets = OffsetClient(broker)
    return list(read_offset_range(broker, offsets.topic_start_offsets([topic]), offsets.topic_end_offsets([topic])))


def first_written(broker: str, topic: str) -> list[ConsumerRecord]:
    """The records of a gate, without what it wrote again."""
    found: dict[tuple[int, int], ConsumerRecord] = {}
    for record in records_of(broker, topic):
        found.setdefault((record.partition, OFFSET_HEADER.read_or(record, -1)), record)
    return list(found.values())


def clean_events(broker: str, stream: Stream) -> list[Event]:
    """The clean events of a stream, of each id the first."""
    events: dict[Any, Event] = {}
    for record in first_written(broker, stream.clean):
        event = parse_event(stream.schema, record.value or b"")
        events.setdefault(event[stream.id], event)
    return list(events.values())


@dataclass
class Oracle:
    """Checks a running app, and lists the differences from the expected state."""

    app: App
    traffic: Traffic
    running: Running
    folder: Path

    @property
    def broker(self) -> str:
        return self.running.broker

    def complaints(self) -> list[str]:
        """Everything that is wrong now; what is on its way is wrong until it is there."""
        return [*self.fates(), *self.derived(), *self.served(), *self.scored()]

    def fates(self) -> Iterator[str]:
        """Each raw record of what was sent has the fate that loops over the log give it."""
        for stream in self.app.streams:
            if isinstance(stream, DerivedStream | Changes) or stream.name == self.traffic.names.verdicts:
                continue
            arrived = self.arrived(stream)
            for fate, topic in (("clean", stream.clean), ("late", stream.late_topic), ("dead", stream.dead)):
                wanted = sum(_fate(stream, one) == fate for one in arrived)
                found = len(first_written(self.broker, topic))
                if wanted != found:
                    yield f"{stream.name}: {found} records are {fate}, and {wanted} of {len(arrived)} should be"

    def arrived(self, stream: Stream) -> list[Sent]:
        """What is in the raw log of a stream, with what was meant by it, in the order it came."""
        ordered = sorted(records_of(self.broker, stream.name), key=lambda one: (one.appended_us, one.offset))
        return [self._sent(stream, record) for record in ordered]

    def _sent(self, stream: Stream, record: ConsumerRecord) -> Sent:
        sent = self.traffic.meant[canonical(record.value or b"")]
        return sent if stream.arrival else replace(sent, arrival_us=record.appended_us)

    def derived(self) -> Iterator[str]:
        for derivation in self.app.derivations:
            if isinstance(derivation, StreamOperation):
                yield from self._operation(derivation)
            else:
                yield from self._function(self.app.derived_streams_of(derivation)[0])

    def _operation(self, operation: StreamOperation) -> Iterator[str]:
        outputs = self.app.derived_streams_of(operation)
        if not outputs:  # a view of a captured table's rows, which is looked at as a view
            return
        events = [event for number, one in enumerate(operation.inputs) for event in self._given(number, one)]
        events.sort(key=lambda event: event.sort_key)
        is_recorded = has_recorded_input(operation.inputs)
        until_us = max((event.arrival_us for event in events), default=0) if is_recorded else FOREVER_US
        rows = PureHost().play(operation, outputs, [*events, WatermarkStep(until_us)])
        for stream in outputs:
            wanted = {row[stream.id]: json.loads(to_json_bytes(row, stream.schema)) for row in rows[stream.output]}
            found = {row[stream.id]: row for row in self._told(stream)}
            yield from _differences(stream, found, wanted, is_recorded)

    def _given(self, number: int, stream: Stream) -> Iterator[InputEvent]:
        for record in first_written(self.broker, stream.clean):
            values = parse_event(stream.schema, record.value or b"")
            arrival_us, offset = ARRIVAL_HEADER.read_or(record, 0), OFFSET_HEADER.read_or(record, 0)
            yield InputEvent(
                number, values[stream.id], values[stream.time], arrival_us, record.partition, offset, values
            )

    def _told(self, stream: DerivedStream) -> list[Event]:
        return [json.loads(record.value or b"") for record in first_written(self.broker, stream.clean)]

    def _function(self, stream: DerivedStream) -> Iterator[str]:
        parent, amount = stream.made_by.inputs[0], self.traffic.names.amount
        events = clean_events(self.broker, parent)
        if self.traffic.row["function"] == "derive":
            events = [event for event in events if event[amount] is not None and event[amount] < 90]
        found = {event[stream.id] for event in clean_events(self.broker, stream)}
        wanted = {event[parent.id] for event in events}
        if found != wanted:
            yield f"{stream.name}: {len(found - wanted)} events too many, {len(wanted - found)} missing"

    def served(self) -> Iterator[str]:
        """Each served value of each entity equals brute force over the events."""
        for view in self.app.views:
            counted = self._counted(view)
            entities = sorted({one for e in counted if None not in (one := tuple(e[c] for c in view.by))}, key=str)
            if not entities:
                yield f"{view.name}: no entity has an event"
                continue
            last_us = max(brute.time_of(view, event) for event in counted) // 1000 * 1000
            yield from self._values(view, counted, entities, last_us)

    def _counted(self, view: View) -> list[Event]:
        if view.captured_table:
            return rows_now(self.broker, view.streams[0])
        by_stream = {stream.name: clean_events(self.broker, stream) for stream in view.streams}
        return brute.united(view, by_stream) if len(by_stream) > 1 else next(iter(by_stream.values()))

    def _values(self, view: View, counted: list[Event], entities: Sequence[Any], at_us: int) -> Iterator[str]:
        keys = [_key(view, entity) for entity in entities]
        body = {"keys": keys, "at": at_us // 1000, "request": {self.traffic.names.amount: REQUEST}}
        status, answer = self.running._ask("POST", f"/features/{view.name}", json.dumps(body))
        if status != 200:  # also of a time that is too long ago: more events have come since these were counted
            yield f"{view.name} at {at_us} is answered {status}: {answer}"
            return
        for entity, row in zip(entities, json.loads(answer)["rows"], strict=True):
            expected = brute.features(view, counted, entity, at_us)
            for feature in view.features:
                if not agrees(feature, row["values"][feature.name], *expected[feature.name]):
                    told, wanted = row["values"][feature.name], expected[feature.name].value
                    yield f"{view.name}{entity}.{feature.name} at {at_us} is {told!r}, and should be {wanted!r}"
            if "ratio" in row["values"]:
                yield from _ratio(view, row["values"], expected["mean_1h"].value)

    def scored(self) -> Iterator[str]:
        """Each clean event has a prediction; of a network that adds its inputs, their sum is the score."""
        for model in self.app.models if self.traffic.row["model"] == "file" else ():
            told = [json.loads(record.value or b"") for record in records_of(self.broker, model.predictions)]
            wanted = {event[model.stream.id] for event in clean_events(self.broker, model.stream)}
            found = {one["event_id"] for one in told}
            if found != wanted:
                yield f"{model.name}: {len(wanted - found)} events are not scored, {len(found - wanted)} are none"
            wrong = [one for one in told if abs(_added(model, one["features"]) - one["score"]) > 1e-3]
            yield from (f"{model.name}: {one['score']} of {one['features']}" for one in wrong[:1])

    def landed(self) -> Iterator[str]:
        """Each table of the lake has every record of its topic once."""
        compacted = {view.topic for view in self.app.views}
        for landing in table_mappings(self.app):
            offsets = {
                (one.partition, OFFSET_HEADER.read_or(one, -1) if landing.may_replay else one.offset)
                for one in records_of(self.broker, landing.topic)
            }
            try:
                rows = read_back(self.folder / "lake" / landing.table)
            except Exception as problem:  # noqa: BLE001 - the table may not exist yet; each library has its own error
                if offsets:
                    yield f"{landing.table}: {type(problem).__name__} {problem}"
                continue
            yield from _differing_offsets(landing.table, rows, offsets, landing.topic in compacted)


def _differing_offsets(table: str, rows: pa.Table, offsets: set[tuple[int, int]], is_compacted: bool) -> Iterator[str]:
    """What a table has twice, lacks or has too much; a compacted topic may have lost what its table has."""
    landed = list(zip(rows[PARTITION].to_pylist(), rows[LANDED_OFFSET].to_pylist(), strict=True))
    twice, missing, more = len(landed) - len(set(landed)), offsets - set(landed), set(landed) - offsets
    if twice or missing or (more and not is_compacted):
        told = f"{table}: {len(landed)} rows, and the topic has {len(offsets)}"
        yield f"{told}: {twice} twice, {len(missing)} missing, {len(more)} that the topic has not"


def rows_now(broker: str, stream: Stream) -> list[Event]:
    """The rows that a captured table has now, by its changes."""
    newest: dict[Any, Event] = {}
    for event in clean_events(broker, stream):
        newest[event[stream.key]] = event
    return [event for event in newest.values() if not event["deleted"]]


def _added(model: Model, features: Event) -> float:
    """The prediction of a network that adds its inputs."""
    return sum(float(features[name]) for name in model.inputs or () if features[name] is not None)


def _fate(stream: Stream, one: Sent) -> str:
    judged = brute.fate(stream, one)
    return judged if judged in ("clean", "late", "dropped") else "dead"


def _key(view: View, entity: tuple[Any, ...]) -> Any:
    parts = [
        datetime.fromtimestamp(part / SECOND_US, UTC).isoformat() if column.kind is Kind.TIMESTAMP else part
        for column, part in zip(view.entity, entity, strict=True)
    ]
    return parts if len(parts) > 1 else parts[0]


def _ratio(view: View, values: Event, mean: float | None) -> Iterator[str]:
    wanted = None if not mean else REQUEST / mean
    told = values["ratio"]
    if told is None or wanted is None:
        if told is not wanted:
            yield f"{view.name}.ratio is {told!r}, and should be {wanted!r}"
    elif abs(told - wanted) > 1e-9 * abs(wanted):
        yield f"{view.name}.ratio is {told!r}, and should be {wanted!r}"


def _differences(stream: DerivedStream, found: Event, wanted: Event, is_recorded: bool) -> Iterator[str]:
    """How rows differ from the expected ones; rows that are replaced or corrected count by their last version."""
    if "revision" in stream.schema:
        found, wanted = _standing(found), _standing(wanted)
    found, wanted = _without_nulls(found), _without_nulls(wanted)
    if found == wanted:
        return
    missing, more = wanted.keys() - found.keys(), found.keys() - wanted.keys()
    other = [key for key in found.keys() & wanted.keys() if found[key] != wanted[key]]
    shown = [f"{found[key]} instead of {wanted[key]}" for key in other[:1]]
    told = f"{stream.name}: {len(missing)} rows missing, {len(more)} too many, {len(other)} others"
    yield f"{told} of {len(wanted)} {sorted(map(str, missing))[:2]} {sorted(map(str, more))[:2]} {shown}"


def _without_nulls(rows: Event) -> Event:
    """Rows without nulls: a row that is older than a column does not have it."""
    return {key: {name: value for name, value in row.items() if value is not None} for key, row in rows.items()}


def _standing(rows: Event) -> Event:
    """The newest row of each window that is not retracted."""
    newest: Event = {}
    measures = ("n", "total", "newest", "is_final", "events", "late_rows")
    for row in sorted(rows.values(), key=lambda row: (row["revision"], row.get("kind") != "retraction")):
        window = json.dumps(
            [row[name] for name in row if name not in (*measures, "id", "revision", "kind", "at", "known_at")]
        )
        if row.get("kind") == "retraction":
            newest.pop(window, None)
        else:
            newest[window] = {name: row[name] for name in measures if name in row}
    return newest
