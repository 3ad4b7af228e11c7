"""Feature vectors of events: the features of their entities at a time, and the events' own fields.

event ──▶ entity of each view ──▶ store, at a time ──▶ values, derived values ─┐
   └──▶ fields ────────────────────────────────────────────────────────────────┴──▶ every column of `model.known`
"""

from collections.abc import Callable, Sequence
from itertools import chain
from operator import itemgetter
from typing import Any, NamedTuple

from headrace.declare.features.view import View
from headrace.declare.models.model import Model
from headrace.declare.streams.schema import Kind
from headrace.declare.streams.stream import Stream
from headrace.models.inference.scorer import RowScorer
from headrace.online_store.bounded_cache import BoundedCache
from headrace.online_store.feature_lookup import NO_PROVENANCE, HopProvenance, IncludedEvent, LookupResult
from headrace.online_store.memory.memory_store_reader import OnlineStoreReader
from headrace.tiles.events.event_parser import Event
from headrace.tiles.events.on_demand_features import OnDemandEvaluator
from headrace.tiles.layout import live_layouts
from headrace.tiles.online.event_tiles import EventTiles
from headrace.tiles.online.feature_reader import FeatureReader
from headrace.tiles.tile import Entity

TupleGetter = Callable[[Any], tuple[Any, ...]]

MAX_CACHED_SCORERS = 32


class FeatureVector(NamedTuple):
    """Every value a model can read of one event, in the order of its columns; and the provenance by view."""

    values: tuple[Any, ...]
    provenance: Sequence[tuple[str, Sequence[HopProvenance]]]
    event_time_us: int | None

    @property
    def provenance_by_view(self) -> dict[str, list[list[int]]]:
        """The provenance of the values by view."""
        return {view: list(map(list, known)) for view, known in self.provenance}


class FeatureVectorReader:
    """Reads the vectors of one model from a store."""

    def __init__(self, model: Model, store_reader: OnlineStoreReader) -> None:
        self.names = model.known.names
        self._store_reader = store_reader
        self._view_columns = [_ViewColumns(view, model.stream) for view in model.views]
        self._view_names = [view.name for view in model.views]
        self._get_fields = tuple_getter(model.fields)
        self._column_indexes = {name: index for index, name in enumerate(self.names)}
        self._row_getters: BoundedCache[RowScorer, TupleGetter] = BoundedCache(MAX_CACHED_SCORERS)

    async def read(self, events: Sequence[Event], at_us: Sequence[int]) -> list[FeatureVector]:
        """The vector of each event at its time."""
        return self.build_vectors(events, await self.read_features(events, at_us))

    async def read_features(self, events: Sequence[Event], at_us: Sequence[int]) -> list[list[LookupResult]]:
        """For each view the store's values of each event's entity at the event's time."""
        return [await self._read_view(columns, events, at_us) for columns in self._view_columns]

    async def read_features_including(
        self, events: Sequence[Event], arrivals_us: Sequence[int]
    ) -> list[list[LookupResult]]:
        """The same at each event's arrival, as if only that event were in the store already."""
        return [
            await self._read_view(columns, events, arrivals_us)
            if columns.event_tiles is None
            else await self._read_view_including(
                columns, _included_events(columns, columns.event_tiles, events, arrivals_us), arrivals_us
            )
            for columns in self._view_columns
        ]

    def default_features(self, events: Sequence[Event]) -> list[list[LookupResult]]:
        """The values of entities that were never seen, or of an unavailable store."""
        return [[columns.default_result] * len(events) for columns in self._view_columns]

    def build_vectors(
        self, events: Sequence[Event], results_by_view: Sequence[Sequence[LookupResult]]
    ) -> list[FeatureVector]:
        """The vectors of events from the values of their entities, a list for each view."""
        views = zip(self._view_columns, results_by_view, strict=True)
        rows_by_view = [columns.build_rows(results, events) for columns, results in views]
        by_event = zip(events, zip(*rows_by_view, strict=True), zip(*results_by_view, strict=True), strict=True)
        return [self._build_vector(event, values, found) for event, values, found in by_event]

    def scorer_rows(self, scorer: RowScorer, vectors: Sequence[FeatureVector]) -> list[tuple[Any, ...]]:
        """The columns of a scorer, for each vector."""
        get_row = self._row_getters.get(scorer)
        if get_row is None:
            get_row = self._row_getters[scorer] = tuple_getter(
                [self._column_indexes[column.name] for column in scorer.columns]
            )
        return [get_row(vector.values) for vector in vectors]

    def to_named_values(self, vector: FeatureVector) -> dict[str, Any]:
        """The values by name."""
        return dict(zip(self.names, vector.values, strict=True))

    def _build_vector(
        self, event: Event, values: Sequence[Sequence[Any]], results: Sequence[LookupResult]
    ) -> FeatureVector:
        provenance = [(name, result.provenance) for name, result in zip(self._view_names, results, strict=True)]
        times_us = [one.event_time_us for one in results if one.event_time_us is not None]
        return FeatureVector(
            (*chain.from_iterable(values), *self._get_fields(event)), provenance, max(times_us, default=None)
        )

    async def _read_view(
        self, view_columns: "_ViewColumns", events: Sequence[Event], at_us: Sequence[int]
    ) -> list[LookupResult]:
        """The store's values; events of the same time share a request, and a null entity is unknown."""
        entities = list(map(view_columns.get_entity, events))
        results = [view_columns.default_result] * len(events)
        for time_us, indexes in _group_by_time(entities, at_us).items():
            group_results = await self._store_reader.read(
                view_columns.view.name, [entities[index] for index in indexes], time_us
            )
            for place, result in zip(indexes, group_results, strict=True):
                results[place] = result
        return results

    async def _read_view_including(
        self, view_columns: "_ViewColumns", included_events: Sequence[IncludedEvent], at_us: Sequence[int]
    ) -> list[LookupResult]:
        results = [view_columns.default_result] * len(included_events)
        for time_us, indexes in _group_by_time(
            [included_event.entity for included_event in included_events], at_us
        ).items():
            group_results = await self._store_reader.read_including(
                view_columns.view.name, [included_events[index] for index in indexes], time_us
            )
            for place, result in zip(indexes, group_results, strict=True):
                results[place] = result
        return results


class _ViewColumns:
    """The columns of one view in a vector: scalar values that are not times, stored and derived ones."""

    def __init__(self, view: View, stream: Stream) -> None:
        kinds = {column.name: column.kind for column in view.expression_inputs} | {
            feature.name: feature.kind for feature in view.on_demand_features
        }
        names = [name for name in view.names if kinds.get(name, Kind.TIMESTAMP) is not Kind.TIMESTAMP]
        self.view = view
        self.get_entity = tuple_getter(view.by)
        self.default_result = LookupResult(
            FeatureReader(view).default_row, None, None, [NO_PROVENANCE] * len(live_layouts(view))
        )
        self.event_tiles = EventTiles(view, stream) if stream in view.streams else None
        self._deriver, self._has_derived = OnDemandEvaluator(view), bool(view.on_demand_features)
        self._get_single_values = tuple_getter([view.names.index(name) for name in names])
        self._integer_sum_indexes = [
            names.index(one.name) for one in view.features if one.aggregate.result_type.is_unbounded
        ]

    def build_rows(self, results: Sequence[LookupResult], events: Sequence[Event]) -> Sequence[Sequence[Any]]:
        """The columns for each result; request values of derived features are in the event."""
        rows = [result.values for result in results]
        if self._has_derived:
            derived_rows = self._deriver.evaluate_rows(rows, events, list(map(self.get_entity, events)))
            rows = [[*row, *derived_row] for row, derived_row in zip(rows, derived_rows, strict=True)]
        single_value_rows = list(map(self._get_single_values, rows))
        return list(map(self._sums_to_doubles, single_value_rows)) if self._integer_sum_indexes else single_value_rows

    def _sums_to_doubles(self, values: Sequence[Any]) -> list[Any]:
        """Sums of integers may exceed 64 bits: a model gets them as doubles."""
        converted = list(values)
        for index in self._integer_sum_indexes:
            converted[index] = None if converted[index] is None else float(converted[index])
        return converted


def _included_events(
    view_columns: _ViewColumns, event_tiles: EventTiles, events: Sequence[Event], arrivals_us: Sequence[int]
) -> list[IncludedEvent]:
    """Events with their own tiles."""
    return [
        IncludedEvent(view_columns.get_entity(event), event_tiles.fold_event(event, arrival_us))
        for event, arrival_us in zip(events, arrivals_us, strict=True)
    ]


def _group_by_time(entities: Sequence[Entity], at_us: Sequence[int]) -> dict[int, list[int]]:
    """The indexes of entities by requested time."""
    indexes_by_time: dict[int, list[int]] = {}
    for index, (entity, time_us) in enumerate(zip(entities, at_us, strict=True)):
        if None not in entity:
            indexes_by_time.setdefault(time_us, []).append(index)
    return indexes_by_time


def tuple_getter(keys: Sequence[Any]) -> TupleGetter:
    """A function that returns these items of a mapping or a sequence as a tuple, however many they are.

    >>> tuple_getter([2, 0])("abc"), tuple_getter(["a"])({"a": 1}), tuple_getter([])({})
    (('c', 'a'), (1,), ())
    """
    if len(keys) > 1:
        return itemgetter(*keys)
    if not keys:
        return lambda _: ()
    (key,) = keys
    return lambda values: (values[key],)
