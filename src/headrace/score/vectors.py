"""What a model reads of an event: the features of its entities at a time, and the event's own fields.

event ──▶ entity of each view ──▶ store, at a time ──▶ values, derived values ─┐
   └──▶ fields ────────────────────────────────────────────────────────────────┴──▶ every column of `model.known`
"""

from collections.abc import Callable, Sequence
from itertools import chain
from operator import itemgetter
from typing import Any, NamedTuple

from headrace.declare.model import Model
from headrace.declare.schema import Kind
from headrace.declare.stream import Stream
from headrace.declare.views import View
from headrace.score.scorer import RowScorer
from headrace.store.online import Online
from headrace.store.reads import NOTHING_KNOWN, Added, Known, Read
from headrace.store.recent import Recent
from headrace.tiles.derive import Deriver
from headrace.tiles.events import Event
from headrace.tiles.layout import lives_of
from headrace.tiles.own import OwnTiles
from headrace.tiles.read import Reader
from headrace.tiles.tile import Entity

Pick = Callable[[Any], tuple[Any, ...]]

SCORERS_AT_MOST = 32


class Vector(NamedTuple):
    """Every value a model can read of one event, in the order of its `known`; of each view, what they were made of."""

    values: tuple[Any, ...]
    made_of: Sequence[tuple[str, Sequence[Known]]]
    event_time_us: int | None

    @property
    def known(self) -> dict[str, list[list[int]]]:
        """By view what the values were made of."""
        return {view: list(map(list, known)) for view, known in self.made_of}


class Vectors:
    """Reads the vectors of one model from a store."""

    def __init__(self, model: Model, online: Online) -> None:
        self.names = model.known.names
        self._online = online
        self._views = [_ViewColumns(view, model.stream) for view in model.views]
        self._view_names = [view.name for view in model.views]
        self._fields = picked(model.fields)
        self._places = {name: place for place, name in enumerate(self.names)}
        self._rows: Recent[RowScorer, Pick] = Recent(SCORERS_AT_MOST)

    async def read(self, events: Sequence[Event], at_us: Sequence[int]) -> list[Vector]:
        """The vector of each event at its time."""
        return self.made(events, await self.found(events, at_us))

    async def found(self, events: Sequence[Event], at_us: Sequence[int]) -> list[list[Read]]:
        """Of each view what its store says of each event's entity at the event's time."""
        return [await self._found(columns, events, at_us) for columns in self._views]

    async def found_with(self, events: Sequence[Event], arrivals_us: Sequence[int]) -> list[list[Read]]:
        """The same at each event's arrival, as if it alone were in the store already."""
        return [
            await self._found(columns, events, arrivals_us)
            if columns.own is None
            else await self._found_with(columns, _added(columns, columns.own, events, arrivals_us), arrivals_us)
            for columns in self._views
        ]

    def nothing_found(self, events: Sequence[Event]) -> list[list[Read]]:
        """What there is of entities that were never seen, or of which no store speaks."""
        return [[columns.nothing] * len(events) for columns in self._views]

    def made(self, events: Sequence[Event], found_by_view: Sequence[Sequence[Read]]) -> list[Vector]:
        """The vectors of events, from what is known of their entities: of each view in its order, one each."""
        views = zip(self._views, found_by_view, strict=True)
        parts = [columns.values(found, events) for columns, found in views]
        by_event = zip(events, zip(*parts, strict=True), zip(*found_by_view, strict=True), strict=True)
        return [self._vector(event, values, found) for event, values, found in by_event]

    def rows(self, scorer: RowScorer, vectors: Sequence[Vector]) -> list[tuple[Any, ...]]:
        """What a scorer reads of each vector."""
        pick = self._rows.get(scorer)
        if pick is None:
            pick = self._rows[scorer] = picked([self._places[column.name] for column in scorer.columns])
        return [pick(vector.values) for vector in vectors]

    def named(self, vector: Vector) -> dict[str, Any]:
        """The values by name."""
        return dict(zip(self.names, vector.values, strict=True))

    def _vector(self, event: Event, values: Sequence[Sequence[Any]], found: Sequence[Read]) -> Vector:
        made_of = [(name, one.known) for name, one in zip(self._view_names, found, strict=True)]
        times_us = [one.event_time_us for one in found if one.event_time_us is not None]
        return Vector((*chain.from_iterable(values), *self._fields(event)), made_of, max(times_us, default=None))

    async def _found(self, columns: "_ViewColumns", events: Sequence[Event], at_us: Sequence[int]) -> list[Read]:
        """What the store says; events of one moment are one question, and whoever is null is nobody it knows."""
        entities = list(map(columns.entity, events))
        found = [columns.nothing] * len(events)
        for time_us, places in _by_time(entities, at_us).items():
            reads = await self._online.read(columns.view.name, [entities[place] for place in places], time_us)
            for place, read in zip(places, reads, strict=True):
                found[place] = read
        return found

    async def _found_with(self, columns: "_ViewColumns", added: Sequence[Added], at_us: Sequence[int]) -> list[Read]:
        found = [columns.nothing] * len(added)
        for time_us, places in _by_time([one.entity for one in added], at_us).items():
            reads = await self._online.read_with(columns.view.name, [added[place] for place in places], time_us)
            for place, read in zip(places, reads, strict=True):
                found[place] = read
        return found


class _ViewColumns:
    """The columns of one view in a vector: its single values that are no times, kept ones and derived ones."""

    def __init__(self, view: View, stream: Stream) -> None:
        kinds = {column.name: column.kind for column in view.outputs} | {one.name: one.kind for one in view.derived}
        names = [name for name in view.names if kinds.get(name, Kind.TIMESTAMP) is not Kind.TIMESTAMP]
        self.view = view
        self.entity = picked(view.by)
        self.nothing = Read(Reader(view).default_row, None, None, [NOTHING_KNOWN] * len(lives_of(view)))
        self.own = OwnTiles(view, stream) if stream in view.streams else None
        self._deriver, self._is_derived = Deriver(view), bool(view.derived)
        self._picked = picked([view.names.index(name) for name in names])
        self._sums = [
            names.index(one.name)
            for one in view.features
            if one.aggregate.function == "sum" and one.aggregate.kind is Kind.INTEGER
        ]

    def values(self, reads: Sequence[Read], events: Sequence[Event]) -> Sequence[Sequence[Any]]:
        """The columns of each read; what derived features ask of a request is in the event."""
        rows = [read.values for read in reads]
        if self._is_derived:
            derived = self._deriver.rows(rows, events, list(map(self.entity, events)))
            rows = [[*row, *more] for row, more in zip(rows, derived, strict=True)]
        found = list(map(self._picked, rows))
        return list(map(self._as_doubles, found)) if self._sums else found

    def _as_doubles(self, values: Sequence[Any]) -> list[Any]:
        """Sums of whole numbers may pass 64 bits: to a model they are doubles."""
        changed = list(values)
        for place in self._sums:
            changed[place] = None if changed[place] is None else float(changed[place])
        return changed


def _added(columns: _ViewColumns, own: OwnTiles, events: Sequence[Event], arrivals_us: Sequence[int]) -> list[Added]:
    """Events with tiles of their own."""
    return [
        Added(columns.entity(event), own.rows(event, arrival_us))
        for event, arrival_us in zip(events, arrivals_us, strict=True)
    ]


def _by_time(entities: Sequence[Entity], at_us: Sequence[int]) -> dict[int, list[int]]:
    """Which of the entities are asked for at which time."""
    places: dict[int, list[int]] = {}
    for place, (entity, time_us) in enumerate(zip(entities, at_us, strict=True)):
        if None not in entity:
            places.setdefault(time_us, []).append(place)
    return places


def picked(keys: Sequence[Any]) -> Pick:
    """What takes these of a mapping or a sequence, as a tuple however many they are.

    >>> picked([2, 0])("abc"), picked(["a"])({"a": 1}), picked([])({})
    (('c', 'a'), (1,), ())
    """
    if len(keys) > 1:
        return itemgetter(*keys)
    if not keys:
        return lambda _: ()
    (only,) = keys
    return lambda given: (given[only],)
