"""Folds events into tiles, with the same partials as the Spark query, for tests, backfill and training sets.

events ──sorted by entity, time, id──▶ runs of one entity and one hop ──one reduction a partial──▶ tiles
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from headrace.aggregates.partial import AggregateSlot
from headrace.aggregates.value_columns import Data, Mask, ValueColumn, to_value_column
from headrace.declare.features.view import View
from headrace.declare.streams.stream import Stream
from headrace.declare.streams.union import STREAM_COLUMN
from headrace.tiles.events.event_parser import Event
from headrace.tiles.events.expression_kernel import evaluate_condition
from headrace.tiles.layout import HopLayout, stream_layouts
from headrace.tiles.tile import Entity, FeatureTile, FeatureTileKey

Ints = NDArray[np.int64]


@dataclass(frozen=True)
class EventColumns:
    """Clean, deduplicated events of one stream, as the columns a view sees, with their arrival times."""

    stream: Stream
    columns: Mapping[str, ValueColumn]
    arrival_us: Ints

    def __len__(self) -> int:
        return len(self.arrival_us)

    def __getitem__(self, rows: Any) -> "EventColumns":
        columns = {name: values[rows] for name, values in self.columns.items()}
        return EventColumns(self.stream, columns, self.arrival_us[rows])

    @property
    def times_us(self) -> Ints:
        times_us: Ints = self.columns[self.stream.time].data
        return times_us

    @property
    def ids(self) -> Data:
        return self.columns[self.stream.id].data


def to_event_columns(view: View, stream: Stream, events: Sequence[Event], arrivals_us: Sequence[int]) -> EventColumns:
    """The columns that a view sees of one stream's events, from single events."""
    columns = {
        column.name: to_value_column([column_value(event, column.name, stream) for event in events], column.kind)
        for column in view.schema
    }
    return EventColumns(stream, columns, np.array(arrivals_us, np.int64))


def column_value(event: Event, column: str, stream: Stream) -> Any:
    """An event's value of a view's column: null where its stream lacks it, the stream's name for the stream column."""
    return event.get(column, stream.name if column == STREAM_COLUMN else None)


def fold_into_tiles(
    view: View, events: EventColumns, layouts: Sequence[HopLayout] | None = None
) -> Iterator[tuple[FeatureTileKey, FeatureTile]]:
    """The tiles that one stream feeds, by entity and start; an event with an incomplete entity is in none."""
    sorted_events, entities, entity_numbers = _sort_by_entity(view, events)
    for layout in layouts or stream_layouts(events.stream, view):
        if len(sorted_events):
            yield from _TileBuilder(layout, sorted_events, entity_numbers).build_tiles(entities)


def _sort_by_entity(view: View, events: EventColumns) -> tuple[EventColumns, list[Entity], Ints]:
    """Events sorted by entity, time and id; the entities; and for each event the number of its entity."""
    has_entity = np.logical_and.reduce([events.columns[name].valid for name in view.by])
    entity_events = events[has_entity]
    number_by_entity: dict[Entity, int] = {}
    keys = zip(*(entity_events.columns[name].data.tolist() for name in view.by), strict=True)
    entity_numbers = np.array([number_by_entity.setdefault(key, len(number_by_entity)) for key in keys], np.int64)
    _, id_ranks = np.unique(entity_events.ids, return_inverse=True)
    order = np.lexsort((id_ranks, entity_events.times_us, entity_numbers))
    return entity_events[order], list(number_by_entity), entity_numbers[order]


class _TileBuilder:
    """Folds sorted events into the tiles of one hop, column by column."""

    def __init__(self, layout: HopLayout, events: EventColumns, entity_numbers: Ints) -> None:
        self.layout = layout
        self.events = events
        self.entity_numbers = entity_numbers
        self.times_us = events.times_us
        self.ids = events.ids
        self.hop_us = layout.hop_us
        self.starts_us = self.times_us // layout.hop_us * layout.hop_us

    def build_tiles(self, entities: Sequence[Entity]) -> Iterator[tuple[FeatureTileKey, FeatureTile]]:
        with np.errstate(all="ignore"):
            folded = self._fold_columns()
        rows = self._pack_rows(folded)
        objects = list(zip(*(folded[name] for name in self.layout.object_names), strict=True)) or [()] * len(rows)
        for index, first_row in enumerate(self.first_rows.tolist()):
            key = FeatureTileKey(
                entities[self.entity_numbers[first_row]],
                self.layout.hop_us,
                int(self.starts_us[first_row]),
                self.layout.version,
            )
            yield key, FeatureTile(rows[index].tobytes(), objects[index])

    @cached_property
    def first_rows(self) -> Ints:
        """The index of each tile's first event."""
        changes = (np.diff(self.entity_numbers) != 0) | (np.diff(self.starts_us) != 0)
        return np.concatenate(([0], np.flatnonzero(changes) + 1))

    def _fold_columns(self) -> dict[str, Any]:
        return {
            f"{suffix}{number}": column
            for number, slot in enumerate(self.layout.slots)
            for suffix, column in self._fold_slot(slot).items()
        }

    def _pack_rows(self, folded: Mapping[str, Data]) -> Ints:
        rows = np.empty((len(self.first_rows), self.layout.width), np.int64)
        for position, column in enumerate(self._head_columns()):
            rows[:, position] = column
        for name, block in self.layout.fixed_columns:
            typed_rows = rows if block.store == "int" else rows.view(np.float64)
            typed_rows[:, self.layout.positions[name]] = folded[name]
        return rows

    def _head_columns(self) -> tuple[Data, Data, Data, Data]:
        event_counts = np.diff(self.first_rows, append=len(self.events))
        return (
            self.starts_us[self.first_rows],
            event_counts,
            self.reduce_per_tile(np.maximum, self.times_us),
            self.reduce_per_tile(np.maximum, self.events.arrival_us),
        )

    def _fold_slot(self, slot: AggregateSlot) -> dict[str, Any]:
        mask = evaluate_condition(slot.where, self.events.columns, len(self.events))
        if slot.column is None:
            return {"c": self.count_per_tile(mask)}
        values = self.events.columns[slot.column]
        mask &= values.valid
        return {"c": self.count_per_tile(mask)} | slot.partial.fold(self, values.data, mask, slot)

    def reduce_per_tile(self, reduction: np.ufunc, data: Data) -> Data:
        """A reduction of each run."""
        return reduction.reduceat(data, self.first_rows)

    def sum_per_tile(self, data: Data, mask: Mask) -> Data:
        return self.reduce_per_tile(np.add, np.where(mask, data, 0))

    def count_per_tile(self, mask: Mask) -> Data:
        return self.sum_per_tile(np.ones(len(mask), np.int64), mask)

    def repeat_per_event(self, column: Data) -> Data:
        """Expand a value per run to a value per event."""
        return np.repeat(column, np.diff(self.first_rows, append=len(self.events)))

    def values_per_tile(self, data: Data, mask: Mask) -> Iterator[list[Any]]:
        """The selected values of each run."""
        bounds = [*self.first_rows.tolist(), len(self.events)]
        for first, end in pairwise(bounds):
            yield data[first:end][mask[first:end]].tolist()
