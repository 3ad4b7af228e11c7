"""A view that is fed test events: how each is classified, and the features at any time, as the server would answer."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from functools import cached_property
from types import SimpleNamespace
from typing import Any, NamedTuple, TypeVar

from headrace.client.protocol import encode_body
from headrace.declare.features.operands import REQUEST_PREFIX
from headrace.declare.features.view import View, require_view
from headrace.declare.streams.schema import Column, Kind
from headrace.declare.streams.stream import Stream
from headrace.server.features.entity_keys import KeyReader
from headrace.server.features.feature_request import FeatureRequest, parse_feature_request
from headrace.server.http.responses import HttpError
from headrace.testing.arrivals import Arrival, EventInput, iterate_events, to_arrival
from headrace.testing.event_records import UnfitQuestion, to_raw_records
from headrace.testing.undeclared_fields import warn_of_undeclared
from headrace.tiles.events.event_parser import Event
from headrace.tiles.events.lookup_tables import unshared_table
from headrace.tiles.events.on_demand_features import OnDemandEvaluator
from headrace.tiles.events.record_classification import ClassificationResult, RawRecord, classify_records
from headrace.tiles.finish import to_datetime
from headrace.tiles.fold import fold_into_tiles, to_event_columns
from headrace.tiles.layout import live_layouts
from headrace.tiles.online.feature_reader import FeatureReader
from headrace.tiles.online.tile_rows import TileRows
from headrace.tiles.tile import Entity

_ResultT = TypeVar("_ResultT")
FeedInput = Iterable[EventInput] | Mapping[str, Iterable[EventInput]]


@dataclass(frozen=True)
class Dead:
    """A dead letter and its reason."""

    event: Any
    reason: str


def feed(view: View | type, events: FeedInput) -> "Fed":
    """A view after these events: each arrives at its own time unless `late`, `early` or `shuffled` says otherwise.

    A view of several streams takes them by stream name: {"payments": [...], "refunds": [...]}.
    """
    view = require_view(view)
    if view.captured_table:
        raise UnfitQuestion(
            f"{view.name} is a view of a captured table, which an operator maintains. Feed a view of a stream."
        )
    classified = [
        classified_event
        for stream, stream_events in _split_by_stream(view, events)
        for classified_event in _classify_events(stream, stream_events)
    ]
    classified.sort(key=lambda one: one.record.arrival_us)
    clean, duplicates = _separate_duplicates([one for one in classified if one.result.fate == "clean"])
    return Fed(
        view=view,
        clean=[one.arrival.event for one in clean],
        duplicates=[one.arrival.event for one in duplicates],
        late=[one.arrival.event for one in classified if one.result.fate == "late"],
        dropped=[one.arrival.event for one in classified if one.result.fate == "dropped"],
        dead=[Dead(one.arrival.event, one.result.reason) for one in classified if one.result.reason],
        rows=_fold_tile_rows(view, clean),
    )


def _split_by_stream(view: View, events: FeedInput) -> list[tuple[Stream, Iterable[EventInput]]]:
    streams = {stream.name: stream for stream in view.streams}
    if not isinstance(events, Mapping):
        if len(streams) > 1:
            raise UnfitQuestion(
                f"{view.name} has the streams {', '.join(streams)}: which of them has which events? "
                f"Write {{{', '.join(f'{name!r}: […]' for name in streams)}}}."
            )
        return [(view.streams[0], events)]
    for name in events:
        if name not in streams:
            raise UnfitQuestion(f"{name!r} is no stream of {view.name}. It has {', '.join(streams)}.")
    return [(streams[name], stream_events) for name, stream_events in events.items()]


def _classify_events(stream: Stream, events: Iterable[EventInput]) -> list["_ClassifiedEvent"]:
    pairs = list(to_raw_records(stream, [to_arrival(event) for event in iterate_events(events)]))
    results = classify_records(stream, [record for _, record in pairs])
    return [_ClassifiedEvent(stream, *pair, result) for pair, result in zip(pairs, results, strict=True)]


class _ClassifiedEvent(NamedTuple):
    stream: Stream
    arrival: Arrival
    record: RawRecord
    result: ClassificationResult

    @property
    def event(self) -> Event:
        return self.result.event or {}


def _separate_duplicates(
    classified: Iterable[_ClassifiedEvent],
) -> tuple[list[_ClassifiedEvent], list[_ClassifiedEvent]]:
    """The first arrival of each id of a stream, and the duplicates."""
    first_by_id: dict[tuple[str, Any], _ClassifiedEvent] = {}
    duplicates = [
        classified_event
        for classified_event in classified
        if first_by_id.setdefault(
            (classified_event.stream.name, classified_event.event[classified_event.stream.id]), classified_event
        )
        is not classified_event
    ]
    return list(first_by_id.values()), duplicates


def _fold_tile_rows(view: View, clean: Sequence[_ClassifiedEvent]) -> dict[Entity, list[TileRows]]:
    layouts = live_layouts(view)
    layout_indexes = {layout.version: index for index, layout in enumerate(layouts)}
    rows: dict[Entity, list[TileRows]] = {}
    for stream in view.streams:
        stream_events = [classified_event for classified_event in clean if classified_event.stream == stream]
        events = to_event_columns(
            view, stream, [one.event for one in stream_events], [one.record.arrival_us for one in stream_events]
        )
        for key, tile in fold_into_tiles(view, events):
            entity_rows = rows.setdefault(key.entity, [TileRows(layout) for layout in layouts])
            entity_rows[layout_indexes[key.version]].apply(tile)
    return rows


@dataclass(frozen=True, repr=False)
class Fed:
    """A view after its events: how each was classified, and the features at any time."""

    view: View
    clean: list[Any]
    duplicates: list[Any]
    late: list[Any]
    dropped: list[Any]
    dead: list[Dead]
    rows: dict[Entity, list[TileRows]] = field(repr=False)

    def __repr__(self) -> str:
        fates = ("clean", "duplicates", "late", "dropped", "dead")
        counts = ", ".join(f"{len(getattr(self, fate))} {fate}" for fate in fates if getattr(self, fate))
        return f"{self.view.name} fed with {counts or 'nothing'}"

    def at(self, time: str | datetime, request: Mapping[str, Any] | None = None) -> "Moment":
        """The features at a time, from all events that were fed; `request` has the request fields."""
        if time is None:
            raise UnfitQuestion('at(None): not a time. Write ISO 8601, such as "2026-01-01T00:05:00Z".')
        return Moment(self, time, request or {})


class Moment(Mapping[Any, "Row"]):
    """The features of every entity at one time, by key; an unknown entity has the defaults, and is not counted.

    Keys, times and requests are validated as the server validates those of `hr.Client`.
    """

    def __init__(self, fed: Fed, time: str | datetime, request: Mapping[str, Any]) -> None:
        self.fed, self._time, self._request_fields = fed, time, request
        request_names = [column.name.removeprefix(REQUEST_PREFIX) for column in fed.view.request_columns]
        parsed_request = self._parse_request([])
        self.time_us = parsed_request.at_us
        self.request = _read_as_server(lambda: self._key_reader.parse_request_values(parsed_request.request_values))
        warn_of_undeclared(parsed_request.request_values, f"What {fed.view.name} reads of a request", request_names)

    def __repr__(self) -> str:
        return f"{self.fed.view.name} at {to_datetime(self.time_us).isoformat()}: {len(self)} entities"

    def __len__(self) -> int:
        return len(self.fed.rows)

    def __iter__(self) -> Iterator[Any]:
        return (_to_key(self.fed.view.entity, entity) for entity in self.fed.rows)

    def __contains__(self, key: object) -> bool:
        return self._to_entity(key) in self.fed.rows

    def __getitem__(self, key: Any) -> "Row":
        view = self.fed.view
        entity = self._to_entity(key)
        rows = self.fed.rows.get(entity)
        reader = FeatureReader(view)
        values = reader.default_row if rows is None else reader.read_values(rows, self.time_us)
        # Its own copy: a test that writes a table's file sees what it wrote.
        (on_demand_values,) = OnDemandEvaluator(view, unshared_table).evaluate_rows([values], [self.request], [entity])
        return Row(**dict(zip(view.names, [*values, *on_demand_values], strict=True)))

    def _to_entity(self, key: Any) -> Entity:
        keys = self._parse_request([list(key) if isinstance(key, tuple) else key]).keys
        (entity,) = _read_as_server(lambda: self._key_reader.parse_entities(keys))
        return entity

    def _parse_request(self, keys: list[Any]) -> FeatureRequest:
        """Parse the request as the server parses the body that `hr.Client` would send."""
        body = encode_body({"keys": keys, "at": self._time, "request": self._request_fields})
        return _read_as_server(lambda: parse_feature_request(body))

    @cached_property
    def _key_reader(self) -> KeyReader:
        return KeyReader(self.fed.view)


class Row(SimpleNamespace):
    """The features of one entity as attributes."""

    def __getattr__(self, name: str) -> Any:
        raise AttributeError(f"there is no feature {name!r}. The view has {', '.join(vars(self))}.")


def _read_as_server(read: Callable[[], _ResultT]) -> _ResultT:
    try:
        return read()
    except HttpError as error:
        raise UnfitQuestion(str(error)) from None


def _to_key(columns: Sequence[Column], entity: Entity) -> Any:
    """An entity as a test writes it: its value, or a tuple of several values."""
    parts = [
        to_datetime(int(part)) if column.kind is Kind.TIMESTAMP else part
        for column, part in zip(columns, entity, strict=True)
    ]
    return parts[0] if len(parts) == 1 else tuple(parts)
