"""Features of the past in Arrow: events and a spine of some entities in, one column a feature out.

    events   e0 …  the entity │ hr_time, hr_known │ hr_id │ v0 … values that are folded │ w0 … whether a condition holds
    spine    e0 …  the entity │ hr_at             │ r0 … fields of a request │ hr_known_HOP_STREAM, if not hr_at

A view of several streams has hr_stream beside hr_id: the stream's number in the order of their names. Hops are in µs.
Spark computes what goes in (`training`); nothing here is a Python object an event or a row.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from functools import cached_property

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from headrace.declare.expressions import Expression, fields
from headrace.declare.schema import Kind
from headrace.declare.table import ENTITY
from headrace.declare.views import Feature, View
from headrace.lake.arrow import LARGE_SUM, as_arrow, as_values, output_type
from headrace.tiles.columns import Maps, Mask, Values
from headrace.tiles.derive import Deriver
from headrace.tiles.frequent import LONGEST_TEXT
from headrace.tiles.history import History, Pairs
from headrace.tiles.layout import Partial, Slot, layouts_of, slot_of
from headrace.tiles.pairs import events_at, values_at
from headrace.tiles.sketches import coupon_of
from headrace.tiles.timeline import Ints

STATUS = "hr_status"
FOUND, BEFORE, UNKNOWN, NO_KEY = range(4)
NOBODY = -1
NEVER = np.iinfo(np.int64).max
BY_PLACE = {Partial.FIRST, Partial.LAST}
BY_RANK = {Partial.TEXT_MIN, Partial.TEXT_MAX}


@dataclass(frozen=True)
class Reads:
    """What of its streams' events a view's windows read."""

    view: View

    @cached_property
    def slots(self) -> tuple[Slot, ...]:
        return tuple(dict.fromkeys(slot_of(feature.aggregate) for feature in self.view.features))

    @cached_property
    def values(self) -> tuple[str, ...]:
        """The columns that are folded."""
        return tuple(dict.fromkeys(slot.column for slot in self.slots if slot.column is not None))

    @cached_property
    def conditions(self) -> tuple[Expression, ...]:
        return tuple(dict.fromkeys(slot.where for slot in self.slots if slot.where is not None))


def features_at(view: View, events: pa.Table, spine: pa.Table) -> pa.Table:
    """The features of each row of the spine, in its order, and whether there was anything to find."""
    past, pairs = _past_and_pairs(view, events, spine)
    order = np.lexsort((pairs.at_us, pairs.owners))
    found = values_at(view, past.history, pairs[order])
    back = np.argsort(order)
    columns = {name: values[back] for name, values in found.items()}
    kept = {feature.name: past.arrow(feature, columns[feature.name]) for feature in view.features}
    derived = _derived(view, kept, spine)
    return pa.table(kept | derived | {STATUS: _status(past.history, pairs)})


def events_in(view: View, events: pa.Table, spine: pa.Table) -> dict[tuple[int, int], Ints]:
    """How many events of each stream the longest window of each hop holds, for each row of the spine."""
    past, pairs = _past_and_pairs(view, events, spine)
    return events_at(view, past.history, pairs)


def _past_and_pairs(view: View, events: pa.Table, spine: pa.Table) -> tuple["_Past", Pairs]:
    entity = [f"e{index}" for index in range(len(view.by))]
    owners, asked = _numbered(events, spine, entity)
    asked[~_all_valid(spine, [*entity, "hr_at"])] = NOBODY
    places = {known_name("known", *place): place for place in places_of(view)}
    known_by_us = {places[name]: _numbers(spine[name]) for name in spine.column_names if name in places}
    return _Past(view, events, owners), Pairs(asked, _numbers(spine["hr_at"]), known_by_us)


def places_of(view: View) -> list[tuple[int, int]]:
    """Hop and number of the stream of everything an answer is made of, in the order of `lives_of(view)`."""
    return [(layout.hop_us, stream) for stream in range(len(view.streams)) for layout in layouts_of(view)]


def known_name(what: str, hop_us: int, stream: int) -> str:
    """The spine's column of what was known, or of how many events, of one hop and stream."""
    return f"hr_{what}_{hop_us}_{stream}"


def _numbered(events: pa.Table, spine: pa.Table, entity: Sequence[str]) -> tuple[Ints, Ints]:
    """The entities of events and of the spine by number; a null is a value like any other here."""
    numbers = np.zeros(len(events) + len(spine), np.int64)
    for name in entity:
        column = pa.chunked_array([*events[name].chunks, *spine[name].chunks], events[name].type)
        encoded = column.combine_chunks().dictionary_encode("encode")
        codes = encoded.indices.to_numpy(zero_copy_only=False).astype(np.int64)
        _, numbers = np.unique(numbers * max(1, len(encoded.dictionary)) + codes, return_inverse=True)
    return numbers[: len(events)], numbers[len(events) :]


def _numbers(column: pa.ChunkedArray) -> Ints:
    found: Ints = pc.fill_null(column, 0).to_numpy().astype(np.int64)
    return found


class _Past:
    """The events of some entities, and the way back from what was folded to what it stands for."""

    def __init__(self, view: View, events: pa.Table, owners: Ints) -> None:
        self._view, self._events, self._reads = view, events, Reads(view)
        self._entities = owners
        self._times_us = _numbers(events["hr_time"])

    @cached_property
    def history(self) -> History:
        columns = {slot: self._folded(slot) for slot in self._reads.slots}
        streams = len(self._view.streams)
        owners = self._entities if streams == 1 else self._entities * streams + _numbers(self._events["hr_stream"])
        return History(owners, self._times_us, _numbers(self._events["hr_known"]), columns, streams)

    def arrow(self, feature: Feature, values: Values | Maps) -> pa.Array:
        """A feature's column as it is given out."""
        slot, kind = slot_of(feature.aggregate), output_type(feature, self._view)
        if isinstance(values, Maps):
            return self._maps(slot, values, kind)
        if values.data.dtype == object:  # sums beyond 64 bits
            sums = zip(values.data.tolist(), values.valid.tolist(), strict=True)
            return pa.array([Decimal(total) if there else None for total, there in sums], LARGE_SUM)
        if feature.aggregate.gives_a_list:
            return self._lists(slot, values, kind)
        places = pa.array(values.data, mask=~values.valid)
        if slot.partial in BY_PLACE:
            return _taken(self._values(slot).take(pa.array(self._order)), places, kind)
        if slot.partial in BY_RANK:
            return _taken(self._ranked(slot)[0], places, kind)
        return places.cast(kind)

    def _lists(self, slot: Slot, values: Values, kind: pa.DataType) -> pa.Array:
        """A list a pair, null where it would be empty."""
        sizes = values.valid.sum(axis=1)
        ends = np.append(0, np.cumsum(sizes)).astype(np.int32)
        items = self._counted_values(slot, values.data[values.valid], kind.value_type)
        return pa.ListArray.from_arrays(pa.array(ends), items, mask=pa.array(sizes == 0))

    def _maps(self, slot: Slot, maps: Maps, kind: pa.DataType) -> pa.Array:
        """A map a pair, which may be empty."""
        entries = maps.entries
        keys = self._counted_values(slot, maps.keys[entries], kind.key_type)
        return pa.MapArray.from_arrays(pa.array(maps.ends, pa.int32()), keys, pa.array(maps.counts[entries]))

    def _counted_values(self, slot: Slot, found: Ints, kind: pa.DataType) -> pa.Array:
        """The values that were counted, from what stands for them: of a text its rank."""
        values = pa.array(found)
        return _taken(self._ranked(slot)[0], values, kind) if slot.kind is Kind.STRING else values.cast(kind)

    def _folded(self, slot: Slot) -> Values:
        counts = np.ones(len(self._events), np.bool_) if slot.where is None else self._holds(slot.where)
        if slot.column is None:
            return Values(np.zeros(len(self._events), np.int64), counts)
        column = self._values(slot)
        counts &= column.is_valid().to_numpy(zero_copy_only=False)
        return Values(self._data(slot, column), counts)

    def _data(self, slot: Slot, column: pa.Array) -> np.ndarray:
        if slot.partial in BY_PLACE:
            return self._places
        if slot.partial in BY_RANK or (slot.partial is Partial.TOP and slot.kind is Kind.STRING):
            return self._ranked(slot)[1]
        if slot.partial is Partial.DISTINCT:
            return _coupons(column)
        kind = pa.float64() if slot.kind is Kind.DOUBLE else pa.int64()
        return np.asarray(pc.fill_null(column.cast(kind), 0).to_numpy(zero_copy_only=False))

    def _values(self, slot: Slot) -> pa.Array:
        return self._events[f"v{self._reads.values.index(str(slot.column))}"].combine_chunks()

    def _holds(self, condition: Expression) -> Mask:
        held = self._events[f"w{self._reads.conditions.index(condition)}"]
        return np.array(pc.fill_null(held, False).to_numpy(), np.bool_)

    @cached_property
    def _order(self) -> Ints:
        """Events by time, id and stream; ids are looked at only where times are equal."""
        by_time = np.argsort(self._times_us, kind="stable")
        sorted_us = self._times_us[by_time]
        if not (sorted_us[1:] == sorted_us[:-1]).any():
            return by_time
        keys = [(name, "ascending") for name in ("hr_id", "hr_stream") if name in self._events.column_names]
        by_id = pc.sort_indices(self._events.select([name for name, _ in keys]).combine_chunks(), keys).to_numpy()
        ordered: Ints = by_id[np.argsort(self._times_us[by_id], kind="stable")]
        return ordered

    @cached_property
    def _places(self) -> Ints:
        return np.argsort(self._order)

    def _ranked(self, slot: Slot) -> tuple[pa.Array, Ints]:
        """The different texts in their order, and of each event the place of its own."""
        texts = self._values(slot)
        if slot.partial is Partial.TOP:
            texts = pc.utf8_slice_codeunits(texts, 0, LONGEST_TEXT)
        encoded = texts.dictionary_encode()
        order = pc.sort_indices(encoded.dictionary)
        ranks = np.argsort(order.to_numpy())
        codes = pc.fill_null(encoded.indices, 0).to_numpy(zero_copy_only=False)
        return encoded.dictionary.take(order), ranks[codes] if len(ranks) else codes.astype(np.int64)


def _taken(values: pa.Array, places: pa.Array, kind: pa.DataType) -> pa.Array:
    return values.take(places).cast(kind)


def _coupons(column: pa.Array) -> Ints:
    """What a sketch keeps of each value; each different one is hashed once."""
    encoded = column.dictionary_encode()
    coupons = np.array([coupon_of(value) for value in encoded.dictionary.to_pylist()] or [0], np.int64)
    found: Ints = coupons[pc.fill_null(encoded.indices, 0).to_numpy(zero_copy_only=False)]
    return found


def _derived(view: View, kept: Mapping[str, pa.Array], spine: pa.Table) -> dict[str, pa.Array]:
    if not view.derived:
        return {}
    read = set[str]().union(*(fields(tree) for tree in view.trees))
    columns = {name: as_values(kept[name], view.outputs.column(name, view.name).kind) for name in kept if name in read}
    for number, column in enumerate(view.requested):
        columns[column.name] = as_values(spine[f"r{number}"].combine_chunks(), column.kind)
    for number, column in enumerate(view.entity):
        columns[ENTITY + column.name] = as_values(spine[f"e{number}"].combine_chunks(), column.kind)
    derived = Deriver(view).columns(columns, len(spine))
    return {one.name: as_arrow(derived[one.name], one.kind) for one in view.derived}


def _all_valid(table: pa.Table, names: Sequence[str]) -> Mask:
    valid: Mask = np.logical_and.reduce([table[name].is_valid().to_numpy() for name in names])
    return valid


def _status(history: History, pairs: Pairs) -> pa.Array:
    """Whether a row's entity is known, and was by then."""
    asked, at_us = pairs.owners, pairs.at_us
    first_us = np.full(int(max(asked.max(initial=0), history.entities.max(initial=0))) + 1, NEVER)
    np.minimum.at(first_us, history.entities, history.known_us)
    known = np.where(first_us[asked] == NEVER, UNKNOWN, np.where(first_us[asked] <= at_us, FOUND, BEFORE))
    return pa.array(np.where(asked == NOBODY, NO_KEY, known), pa.int8())
