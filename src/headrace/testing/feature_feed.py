"""A view that is fed events: what becomes of each, and the features at any time, asked for as of a server."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from functools import cached_property
from types import SimpleNamespace
from typing import Any, NamedTuple, TypeVar

from headrace.declare.operands import REQUEST
from headrace.declare.schema import Column, Kind
from headrace.declare.stream import Stream
from headrace.declare.views import View, view_of
from headrace.questions import body_of
from headrace.serve.answers import Refused
from headrace.serve.feature_request import Asked, read_request
from headrace.serve.keys import KeyReader
from headrace.testing.arrivals import Arrival, Given, arrival_of, each_of
from headrace.testing.event_records import UnfitQuestion, records_of
from headrace.testing.undeclared_fields import warn_of_undeclared
from headrace.tiles.admission import Record, Verdict, admit
from headrace.tiles.derive import Deriver
from headrace.tiles.events import Event
from headrace.tiles.finish import moment
from headrace.tiles.fold import events_of, fold
from headrace.tiles.layout import lives_of
from headrace.tiles.read import Reader
from headrace.tiles.rows import TileRows
from headrace.tiles.tables import fresh
from headrace.tiles.tile import Entity

_Read = TypeVar("_Read")
Feeds = Iterable[Given] | Mapping[str, Iterable[Given]]


@dataclass(frozen=True)
class Dead:
    """A dead letter and its reason."""

    event: Any
    reason: str


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
    pairs = list(records_of(stream, [arrival_of(event) for event in each_of(events)]))
    verdicts = admit(stream, [record for _, record in pairs])
    return [_Judged(stream, *pair, verdict) for pair, verdict in zip(pairs, verdicts, strict=True)]


class _Judged(NamedTuple):
    stream: Stream
    given: Arrival
    record: Record
    verdict: Verdict

    @property
    def event(self) -> Event:
        return self.verdict.event or {}


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


@dataclass(frozen=True, repr=False)
class Fed:
    """A view that was fed: what became of each event, and the features at any time."""

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
        """The features at a time, from everything that was fed; `request` is what would come with the question."""
        if time is None:
            raise UnfitQuestion('at(None): not a time. Write ISO 8601, such as "2026-01-01T00:05:00Z".')
        return Moment(self, time, request or {})


class Moment(Mapping[Any, "Row"]):
    """The features of every entity at one time, by key; an entity never seen has the defaults, and is not counted.

    A key, a time and a request are read as the server reads what `hr.Client` sends: what it refuses is refused here.
    """

    def __init__(self, fed: Fed, time: str | datetime, request: Mapping[str, Any]) -> None:
        self.fed, self._time, self._given = fed, time, request
        requested = [column.name.removeprefix(REQUEST) for column in fed.view.requested]
        asked = self._asked([])
        self.time_us = asked.at_us
        self.request = _refused_as_by_server(lambda: self._keys.request(asked.request))
        warn_of_undeclared(asked.request, f"What {fed.view.name} reads of a request", requested)

    def __repr__(self) -> str:
        return f"{self.fed.view.name} at {moment(self.time_us).isoformat()}: {len(self)} entities"

    def __len__(self) -> int:
        return len(self.fed.rows)

    def __iter__(self) -> Iterator[Any]:
        return (_key_of(self.fed.view.entity, entity) for entity in self.fed.rows)

    def __contains__(self, key: object) -> bool:
        return self._entity(key) in self.fed.rows

    def __getitem__(self, key: Any) -> "Row":
        view = self.fed.view
        entity = self._entity(key)
        rows = self.fed.rows.get(entity)
        reader = Reader(view)
        values = reader.default_row if rows is None else reader.values(rows, self.time_us)
        # A copy of its own: a test that writes a table's file sees what it wrote.
        (derived,) = Deriver(view, fresh).rows([values], [self.request], [entity])
        return Row(**dict(zip(view.names, [*values, *derived], strict=True)))

    def _entity(self, key: Any) -> Entity:
        keys = self._asked([list(key) if isinstance(key, tuple) else key]).keys
        (entity,) = _refused_as_by_server(lambda: self._keys.entities(keys))
        return entity

    def _asked(self, keys: list[Any]) -> Asked:
        """What the server reads of the body that `hr.Client` would send."""
        body = body_of({"keys": keys, "at": self._time, "request": self._given})
        return _refused_as_by_server(lambda: read_request(body))

    @cached_property
    def _keys(self) -> KeyReader:
        return KeyReader(self.fed.view)


class Row(SimpleNamespace):
    """The features of one entity, one attribute each."""

    def __getattr__(self, name: str) -> Any:
        raise AttributeError(f"there is no feature {name!r}. The view has {', '.join(vars(self))}.")


def _refused_as_by_server(read: Callable[[], _Read]) -> _Read:
    try:
        return read()
    except Refused as refused:
        raise UnfitQuestion(str(refused)) from None


def _key_of(columns: Sequence[Column], entity: Entity) -> Any:
    """An entity as a test writes it: its value, or a tuple of several."""
    parts = [
        moment(int(part)) if column.kind is Kind.TIMESTAMP else part
        for column, part in zip(columns, entity, strict=True)
    ]
    return parts[0] if len(parts) == 1 else tuple(parts)
