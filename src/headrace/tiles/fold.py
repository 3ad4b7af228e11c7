"""Events → tiles: the same partials as the Spark query folds, for tests, backfill and training sets.

events ──sorted by entity, time, id──▶ runs of one entity and one hop ──one reduction a partial──▶ tiles
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from headrace.declare.stream import Stream
from headrace.declare.union import STREAM
from headrace.declare.views import View
from headrace.tiles.columns import Data, Mask, Values, values_of
from headrace.tiles.events import Event
from headrace.tiles.expressions import holds
from headrace.tiles.frequent import frequent_sketch_of
from headrace.tiles.layout import HopLayout, Partial, Slot, fed_by
from headrace.tiles.quantiles import quantile_sketch_of
from headrace.tiles.sketches import sketch_of
from headrace.tiles.tile import Entity, Stored, Tile, TileKey

Ints = NDArray[np.int64]
LOW_32_BITS = 0xFFFFFFFF


@dataclass(frozen=True)
class Events:
    """Clean events of one stream, each id once, as the columns a view sees, with their arrival times."""

    stream: Stream
    columns: Mapping[str, Values]
    arrival_us: Ints

    def __len__(self) -> int:
        return len(self.arrival_us)

    def __getitem__(self, rows: Any) -> "Events":
        columns = {name: values[rows] for name, values in self.columns.items()}
        return Events(self.stream, columns, self.arrival_us[rows])

    @property
    def times_us(self) -> Ints:
        times_us: Ints = self.columns[self.stream.time].data
        return times_us

    @property
    def ids(self) -> Data:
        return self.columns[self.stream.id].data


def events_of(view: View, stream: Stream, events: Sequence[Event], arrivals_us: Sequence[int]) -> Events:
    """The columns that a view sees of one stream's events, which were read one by one."""
    columns = {
        column.name: values_of([seen(event, column.name, stream) for event in events], column.kind)
        for column in view.schema
    }
    return Events(stream, columns, np.array(arrivals_us, np.int64))


def seen(event: Event, column: str, stream: Stream) -> Any:
    """An event's value of a view's column: null where its stream has none, the stream's name where that is asked."""
    return event.get(column, stream.name if column == STREAM else None)


def fold(view: View, events: Events, layouts: Sequence[HopLayout] | None = None) -> Iterator[tuple[TileKey, Tile]]:
    """The tiles that one stream feeds, by entity and start; an event without its whole entity belongs to none."""
    ordered, entities, owners = _by_entity(view, events)
    for layout in layouts or fed_by(events.stream, view):
        if len(ordered):
            yield from _Folder(layout, ordered, owners).tiles(entities)


def _by_entity(view: View, events: Events) -> tuple[Events, list[Entity], Ints]:
    """Events sorted by entity, time and id; the entities; and of each event the number of its entity."""
    whole = np.logical_and.reduce([events.columns[name].valid for name in view.by])
    owned = events[whole]
    numbers: dict[Entity, int] = {}
    keys = zip(*(owned.columns[name].data.tolist() for name in view.by), strict=True)
    owners = np.array([numbers.setdefault(key, len(numbers)) for key in keys], np.int64)
    _, id_ranks = np.unique(owned.ids, return_inverse=True)
    order = np.lexsort((id_ranks, owned.times_us, owners))
    return owned[order], list(numbers), owners[order]


class _Folder:
    """Folds sorted events into the tiles of one hop, column by column."""

    def __init__(self, layout: HopLayout, events: Events, owners: Ints) -> None:
        self.layout = layout
        self.events = events
        self.owners = owners
        self.times = events.times_us
        self.ids = events.ids
        self.starts = self.times // layout.hop_us * layout.hop_us

    def tiles(self, entities: Sequence[Entity]) -> Iterator[tuple[TileKey, Tile]]:
        with np.errstate(all="ignore"):
            folded = self._folded()
        rows = self._rows(folded)
        objects = list(zip(*(folded[name] for name in self.layout.objects), strict=True)) or [()] * len(rows)
        for index, first in enumerate(self.firsts.tolist()):
            key = TileKey(
                entities[self.owners[first]], self.layout.hop_us, int(self.starts[first]), self.layout.version
            )
            yield key, Tile(rows[index].tobytes(), objects[index])

    @cached_property
    def firsts(self) -> Ints:
        """Where each tile's run of events begins."""
        changes = (np.diff(self.owners) != 0) | (np.diff(self.starts) != 0)
        return np.concatenate(([0], np.flatnonzero(changes) + 1))

    def _folded(self) -> dict[str, Any]:
        return {
            f"{suffix}{number}": column
            for number, slot in enumerate(self.layout.slots)
            for suffix, column in self._partials(slot).items()
        }

    def _rows(self, folded: Mapping[str, Data]) -> Ints:
        rows = np.empty((len(self.firsts), self.layout.width), np.int64)
        for position, column in enumerate(self._head()):
            rows[:, position] = column
        for name, block in self.layout.fixed:
            as_stored = rows if block.store == "int" else rows.view(np.float64)
            as_stored[:, self.layout.position[name]] = folded[name]
        return rows

    def _head(self) -> tuple[Data, Data, Data, Data]:
        n = np.diff(self.firsts, append=len(self.events))
        return (
            self.starts[self.firsts],
            n,
            self.each(np.maximum, self.times),
            self.each(np.maximum, self.events.arrival_us),
        )

    def _partials(self, slot: Slot) -> dict[str, Any]:
        taken = holds(slot.where, self.events.columns, len(self.events))
        if slot.column is None:
            return {"c": self.count(taken)}
        values = self.events.columns[slot.column]
        taken &= values.valid
        return {"c": self.count(taken)} | _FOLDS[slot.partial](self, values.data, taken, slot)

    def each(self, reduction: np.ufunc, data: Data) -> Data:
        """A reduction of each run."""
        return reduction.reduceat(data, self.firsts)

    def total(self, data: Data, taken: Mask) -> Data:
        return self.each(np.add, np.where(taken, data, 0))

    def count(self, taken: Mask) -> Data:
        return self.total(np.ones(len(taken), np.int64), taken)

    def spread(self, column: Data) -> Data:
        """A value a run as a value an event."""
        return np.repeat(column, np.diff(self.firsts, append=len(self.events)))

    def runs(self, data: Data, taken: Mask) -> Iterator[list[Any]]:
        """The taken values of each run."""
        bounds = [*self.firsts.tolist(), len(self.events)]
        for first, end in pairwise(bounds):
            yield data[first:end][taken[first:end]].tolist()


def _int_sum(folder: _Folder, data: Data, taken: Mask, _: Slot) -> dict[str, Any]:
    return {"hi": folder.total(data >> 32, taken), "lo": folder.total(data & LOW_32_BITS, taken)}


def _float_sum(folder: _Folder, data: Data, taken: Mask, _: Slot) -> dict[str, Any]:
    return {"s": folder.total(data, taken)}


def _moments(folder: _Folder, data: Data, taken: Mask, _: Slot) -> dict[str, Any]:
    mean = folder.total(data.astype(np.float64), taken) / np.maximum(folder.count(taken), 1)
    deviation = data - folder.spread(mean)
    return {"mean": mean, "m2": folder.total(deviation * deviation, taken)}


def _decayed(folder: _Folder, data: Data, taken: Mask, slot: Slot) -> dict[str, Any]:
    """An event counts half for each half-life it lies before its tile's end."""
    weights = np.exp2((folder.times - folder.starts - folder.layout.hop_us) / slot.size)
    return {"wx": folder.total(data * weights, taken), "w": folder.total(weights, taken)}


def _extreme(reduction: np.ufunc, identity: float) -> Callable[..., dict[str, Any]]:
    def fold_extreme(folder: _Folder, data: Data, taken: Mask, _: Slot) -> dict[str, Any]:
        return {"v": folder.each(reduction, np.where(taken, data, identity))}

    return fold_extreme


def _text_extreme(pick: Callable[..., str | None]) -> Callable[..., dict[str, Any]]:
    def fold_text(folder: _Folder, data: Data, taken: Mask, _: Slot) -> dict[str, Any]:
        return {"v": [pick(run, default=None) for run in folder.runs(data, taken)]}

    return fold_text


def _occurrence(reduction: np.ufunc, nowhere: int) -> Callable[..., dict[str, Any]]:
    """First and last: events are sorted by time and id, so the row's number decides."""

    def fold_occurrence(folder: _Folder, data: Data, taken: Mask, _: Slot) -> dict[str, Any]:
        chosen = folder.each(reduction, np.where(taken, np.arange(len(taken)), nowhere)).tolist()
        occurrences = zip(folder.times.tolist(), folder.ids.tolist(), data.tolist(), strict=True)
        by_row: list[Stored] = list(occurrences)
        return {"v": [by_row[row] if 0 <= row < len(by_row) else None for row in chosen]}

    return fold_occurrence


def _distinct(folder: _Folder, data: Data, taken: Mask, slot: Slot) -> dict[str, Any]:
    return {"v": [sketch_of(run, slot.size) if run else None for run in folder.runs(data, taken)]}


def _quantile(folder: _Folder, data: Data, taken: Mask, slot: Slot) -> dict[str, Any]:
    return {"v": [quantile_sketch_of(run, slot.size) if run else None for run in folder.runs(data, taken)]}


def _top(folder: _Folder, data: Data, taken: Mask, slot: Slot) -> dict[str, Any]:
    return {"v": [frequent_sketch_of(run, slot.size) if run else None for run in folder.runs(data, taken)]}


_FOLDS: dict[Partial, Callable[..., dict[str, Any]]] = {
    Partial.INT_SUM: _int_sum,
    Partial.FLOAT_SUM: _float_sum,
    Partial.MOMENTS: _moments,
    Partial.DECAYED: _decayed,
    Partial.INT_MIN: _extreme(np.minimum, np.iinfo(np.int64).max),
    Partial.INT_MAX: _extreme(np.maximum, np.iinfo(np.int64).min),
    Partial.FLOAT_MIN: _extreme(np.fmin, np.nan),
    Partial.FLOAT_MAX: _extreme(np.maximum, -np.inf),
    Partial.TEXT_MIN: _text_extreme(min),
    Partial.TEXT_MAX: _text_extreme(max),
    Partial.FIRST: _occurrence(np.minimum, np.iinfo(np.int64).max),
    Partial.LAST: _occurrence(np.maximum, -1),
    Partial.DISTINCT: _distinct,
    Partial.QUANTILE: _quantile,
    Partial.TOP: _top,
}
