"""Unit tests of features, without Spark and without a broker: the gate's judgement, the fold and the reader themselves.

>>> import headrace as hr
>>> payments = hr.Stream("payments", schema="id string, card string, at timestamp", id="id", key="card", time="at")
>>> @hr.features(payments, by="card")
... class CardSpend:
...     payments = hr.count(windows="10m")
>>> app = hr.testing.feed(CardSpend, [{"id": "p1", "card": "c1", "at": "2026-01-01T00:00:00Z"}])
>>> app.at("2026-01-01T00:05:00Z")["c1"].payments_10m
1
"""

import json
import random
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from types import SimpleNamespace
from typing import Any, NamedTuple

from headrace.declare.derivation import Derived
from headrace.declare.durations import duration_us
from headrace.declare.schema import Column, Schema
from headrace.declare.stream import Stream
from headrace.declare.views import View, view_of
from headrace.errors import HeadraceError
from headrace.scripts.acts import UnfitScript
from headrace.scripts.script import Script, script
from headrace.tiles.admission import Record, Verdict, admit
from headrace.tiles.derive import Deriver
from headrace.tiles.events import Event, Unreadable, read_event, timestamp_us
from headrace.tiles.finish import moment
from headrace.tiles.fold import events_of, fold
from headrace.tiles.layout import lives_of
from headrace.tiles.read import Reader
from headrace.tiles.rows import TileRows
from headrace.tiles.tables import fresh
from headrace.tiles.tile import Entity, Scalar

__all__ = [
    "Arrival",
    "Dead",
    "Fed",
    "Moment",
    "Row",
    "Script",
    "UnfitQuestion",
    "UnfitScript",
    "duplicated",
    "early",
    "feed",
    "late",
    "script",
    "shuffled",
]


class UnfitQuestion(HeadraceError):
    """A test asks for a time or an entity, or gives events, in a form that cannot be one."""


@dataclass(frozen=True)
class Arrival:
    """An event that does not arrive at its own time, but so much later; earlier if below zero.

    Its own time is its event time or, on a stream with `arrival=`, what that column says.
    """

    event: Any
    delay_us: int = 0


@dataclass(frozen=True)
class Dead:
    """A dead letter and its reason."""

    event: Any
    reason: str


Given = Mapping[str, Any] | bytes | Arrival
Feeds = Iterable[Given] | Mapping[str, Iterable[Given]]


def late(event: Given, *, by: str) -> Arrival:
    """The event, arriving so long after its own time."""
    return _delayed(event, duration_us(by, "late: by"))


def early(event: Given, *, by: str) -> Arrival:
    """The event, arriving so long before its own time: its producer's clock is ahead."""
    return _delayed(event, -duration_us(by, "early: by"))


def duplicated(events: Iterable[Given], *, by: str = "1s") -> list[Given]:
    """Every event, and once more so much later."""
    return [again for event in events for again in (event, late(event, by=by))]


def shuffled(events: Iterable[Given], *, within: str = "1m", seed: int = 0) -> list[Given]:
    """Every event, delayed at random up to a time: they arrive out of order, the same for the same seed."""
    chance, longest_us = random.Random(seed), duration_us(within, "shuffled: within")  # noqa: S311 - no secret
    return [_delayed(event, chance.randint(0, longest_us)) for event in events]


def _delayed(event: Given, delay_us: int) -> Arrival:
    given = _arrival(event)
    return replace(given, delay_us=given.delay_us + delay_us)


def _arrival(event: Given) -> Arrival:
    return event if isinstance(event, Arrival) else Arrival(event)


def feed(view: View | type, events: Feeds) -> "Fed":
    """A view after these events: each arrives at its own time unless `late`, `early` or `shuffled` says otherwise.

    A view of several streams takes them by the name of their stream: {"payments": [...], "refunds": [...]}.
    """
    view = view_of(view)
    if view.captured:
        raise UnfitQuestion(
            f"{view.name} is of the rows of a captured table, which are kept by an operator. Feed a view of a stream."
        )
    judged = [one for stream, given in _by_stream(view, events) for one in _judged(stream, given)]
    judged.sort(key=lambda one: one.record.arrival_us)
    clean, duplicates = _once([one for one in judged if one.verdict.fate == "clean"])
    return Fed(
        view=view,
        clean=[one.given.event for one in clean],
        duplicates=[one.given.event for one in duplicates],
        late=[one.given.event for one in judged if one.verdict.fate == "late"],
        dropped=[one.given.event for one in judged if one.verdict.fate == "dropped"],
        dead=[Dead(one.given.event, one.verdict.reason) for one in judged if one.verdict.reason],
        rows=_rows(view, clean),
    )


def _by_stream(view: View, events: Feeds) -> list[tuple[Stream, Iterable[Given]]]:
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
    return [(streams[name], given) for name, given in events.items()]


def _judged(stream: Stream, events: Iterable[Given]) -> list["_Judged"]:
    given = [_arrival(event) for event in events]
    records = [_record(stream, arrival) for arrival in given]
    return [_Judged(stream, *parts) for parts in zip(given, records, admit(stream, records), strict=True)]


class _Judged(NamedTuple):
    stream: Stream
    given: Arrival
    record: Record
    verdict: Verdict

    @property
    def event(self) -> Event:
        return self.verdict.event or {}


def _record(stream: Stream, arrival: Arrival) -> Record:
    event = arrival.event
    value = event if isinstance(event, bytes) else json.dumps(_known(stream, event), default=_iso).encode()
    try:
        own_us = read_event(stream.schema, value)[stream.arrival or stream.time]
    except Unreadable:
        own_us = None
    if own_us is None:
        return Record(value, arrival.delay_us)  # a dead letter, whenever it arrives
    arrival_us = own_us + arrival.delay_us
    if stream.arrival is not None and arrival.delay_us:
        value = json.dumps(json.loads(value) | {stream.arrival: _iso(moment(arrival_us))}).encode()
    return Record(value, arrival_us)


def _known(stream: Stream, event: Mapping[str, Any]) -> Mapping[str, Any]:
    """An event of a derived stream that does not say when it was known was known at its own time."""
    if not isinstance(stream, Derived) or stream.arrival in event or stream.time not in event:
        return event
    return {**event, str(stream.arrival): event[stream.time]}


def _once(judged: Iterable[_Judged]) -> tuple[list[_Judged], list[_Judged]]:
    """The first to arrive of each id of a stream, and the others."""
    firsts: dict[tuple[str, Any], _Judged] = {}
    duplicates = [
        one for one in judged if firsts.setdefault((one.stream.name, one.event[one.stream.id]), one) is not one
    ]
    return list(firsts.values()), duplicates


def _rows(view: View, clean: Sequence[_Judged]) -> dict[Entity, list[TileRows]]:
    layouts = lives_of(view)
    places = {layout.version: place for place, layout in enumerate(layouts)}
    rows: dict[Entity, list[TileRows]] = {}
    for stream in view.streams:
        own = [one for one in clean if one.stream == stream]
        events = events_of(view, stream, [one.event for one in own], [one.record.arrival_us for one in own])
        for key, tile in fold(view, events):
            of_entity = rows.setdefault(key.entity, [TileRows(layout) for layout in layouts])
            of_entity[places[key.version]].apply(tile)
    return rows


@dataclass(frozen=True)
class Fed:
    """A view that was fed: what became of each event, and the features at any time."""

    view: View
    clean: list[Any]
    duplicates: list[Any]
    late: list[Any]
    dropped: list[Any]
    dead: list[Dead]
    rows: dict[Entity, list[TileRows]] = field(repr=False)

    def at(self, time: str | datetime, request: Mapping[str, Any] | None = None) -> "Moment":
        """The features at a time, from everything that was fed; `request` is what would come with the question."""
        time_us = timestamp_us(_iso(time) if isinstance(time, datetime) else time)
        if time_us is None:
            raise UnfitQuestion(f'at({time!r}): not a time. Write ISO 8601, such as "2026-01-01T00:05:00Z".')
        return Moment(self, time_us, request or {})


@dataclass(frozen=True)
class Moment:
    """The features of every entity at one time; an entity never seen has the defaults."""

    fed: Fed
    time_us: int
    request: Mapping[str, Any]

    def __getitem__(self, key: Any) -> "Row":
        view = self.fed.view
        entity = _entity(view, key)
        rows = self.fed.rows.get(entity)
        reader = Reader(view)
        values = reader.default_row if rows is None else reader.values(rows, self.time_us)
        # A copy of its own: a test that writes a table's file sees what it wrote.
        (derived,) = Deriver(view, fresh).rows([values], [self.request], [entity])
        return Row(**dict(zip(view.names, [*values, *derived], strict=True)))


class Row(SimpleNamespace):
    """The features of one entity, one attribute each."""

    def __getattr__(self, name: str) -> Any:
        raise AttributeError(f"there is no feature {name!r}. The view has {', '.join(vars(self))}.")


def _entity(view: View, key: Any) -> Entity:
    parts = key if isinstance(key, tuple) else (key,)
    if len(parts) != len(view.by) or any(isinstance(part, dict | list) for part in parts):
        raise UnfitQuestion(f"{key!r} is no entity of {view.name}. Write one value for each of {', '.join(view.by)}.")
    return tuple(_entity_part(column, part) for column, part in zip(view.entity, parts, strict=True))


def _entity_part(column: Column, part: Any) -> Scalar:
    written = json.dumps({column.name: part}, default=_iso).encode()
    try:
        found: Scalar = read_event(Schema((column,)), written)[column.name]
    except Unreadable as reason:
        raise UnfitQuestion(f"{part!r} is no {column.name}: {reason}") from reason
    return found


def _iso(time: datetime) -> str:
    return time.isoformat()
