"""Point-in-time features in Arrow: takes events and a spine of some entities, returns one column a feature.

    events   e0 …  the entity │ hr_time, hr_known │ hr_id │ v0 … values that are folded │ w0 … whether a condition holds
    spine    e0 …  the entity │ hr_at             │ r0 … fields of a request │ hr_known_HOP_STREAM, if not hr_at

A view of several streams has hr_stream next to hr_id: the stream's number in the order of their names. Hops are in µs.
Spark computes the inputs (`training`); no event or row is a Python object here.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from functools import cached_property

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from headrace.aggregates.aggregate_function import to_slot
from headrace.aggregates.partial import AggregateSlot, HistoryInput
from headrace.aggregates.sketches.distinct_count import to_coupon
from headrace.aggregates.sketches.frequent_items import MAX_TEXT_LENGTH
from headrace.aggregates.value_columns import MapColumn, Mask, ValueColumn
from headrace.declare.expressions import Expression, field_names
from headrace.declare.features.view import Feature, View
from headrace.declare.streams.lookup_table import ENTITY_PREFIX
from headrace.declare.streams.schema import Kind
from headrace.lake.training.arrow_features import LARGE_SUM_TYPE, from_arrow, output_type, to_arrow
from headrace.tiles.batch.event_history import EntityTimePairs, EventHistory
from headrace.tiles.batch.point_in_time_features import compute_features, count_window_events
from headrace.tiles.batch.sorted_times import Ints
from headrace.tiles.events.on_demand_features import OnDemandEvaluator
from headrace.tiles.layout import hop_layouts

STATUS_COLUMN = "hr_status"
FOUND, BEFORE_FIRST_EVENT, UNKNOWN_ENTITY, NO_KEY = range(4)
NO_ENTITY = -1
NEVER_US = np.iinfo(np.int64).max


@dataclass(frozen=True)
class ViewInputs:
    """The columns of its streams' events that a view's windows read."""

    view: View

    @cached_property
    def slots(self) -> tuple[AggregateSlot, ...]:
        return tuple(dict.fromkeys(to_slot(feature.aggregate) for feature in self.view.features))

    @cached_property
    def value_columns(self) -> tuple[str, ...]:
        """The columns that are folded."""
        return tuple(dict.fromkeys(slot.column for slot in self.slots if slot.column is not None))

    @cached_property
    def conditions(self) -> tuple[Expression, ...]:
        return tuple(dict.fromkeys(slot.where for slot in self.slots if slot.where is not None))


def compute_past_features(view: View, events: pa.Table, spine: pa.Table) -> pa.Table:
    """The features of each row of the spine, in its order, and the status of its entity."""
    past_events, pairs = _prepare_lookup(view, events, spine)
    order = np.lexsort((pairs.at_us, pairs.entities))
    values_by_feature = compute_features(view, past_events.history, pairs[order])
    restore_order = np.argsort(order)
    columns = {name: values[restore_order] for name, values in values_by_feature.items()}
    stored_features = {
        feature.name: past_events.to_feature_column(feature, columns[feature.name]) for feature in view.features
    }
    on_demand_features = _on_demand_columns(view, stored_features, spine)
    return pa.table(stored_features | on_demand_features | {STATUS_COLUMN: _status_column(past_events.history, pairs)})


def count_past_events(view: View, events: pa.Table, spine: pa.Table) -> dict[tuple[int, int], Ints]:
    """How many events of each stream the longest window of each hop holds, for each row of the spine."""
    past_events, pairs = _prepare_lookup(view, events, spine)
    return count_window_events(view, past_events.history, pairs)


def _prepare_lookup(view: View, events: pa.Table, spine: pa.Table) -> tuple["_PastEvents", EntityTimePairs]:
    entity_columns = [f"e{index}" for index in range(len(view.by))]
    event_entities, spine_entities = _number_entities(events, spine, entity_columns)
    spine_entities[~_all_valid(spine, [*entity_columns, "hr_at"])] = NO_ENTITY
    hop_stream_by_column = {known_column("known", *hop_stream): hop_stream for hop_stream in hop_streams(view)}
    known_by_us = {
        hop_stream_by_column[name]: _to_ints(spine[name]) for name in spine.column_names if name in hop_stream_by_column
    }
    return _PastEvents(view, events, event_entities), EntityTimePairs(
        spine_entities, _to_ints(spine["hr_at"]), known_by_us
    )


def hop_streams(view: View) -> list[tuple[int, int]]:
    """Hop and stream number of every input of a row, in the order of `live_layouts(view)`."""
    return [(layout.hop_us, stream) for stream in range(len(view.streams)) for layout in hop_layouts(view)]


def known_column(kind: str, hop_us: int, stream: int) -> str:
    """The spine's column of known times, or of event counts, of one hop and stream."""
    return f"hr_{kind}_{hop_us}_{stream}"


def _number_entities(events: pa.Table, spine: pa.Table, entity_columns: Sequence[str]) -> tuple[Ints, Ints]:
    """The entities of events and of the spine by number; a null is an ordinary value here."""
    numbers = np.zeros(len(events) + len(spine), np.int64)
    for name in entity_columns:
        column = pa.chunked_array([*events[name].chunks, *spine[name].chunks], events[name].type)
        encoded = column.combine_chunks().dictionary_encode("encode")
        codes = encoded.indices.to_numpy(zero_copy_only=False).astype(np.int64)
        _, numbers = np.unique(numbers * max(1, len(encoded.dictionary)) + codes, return_inverse=True)
    return numbers[: len(events)], numbers[len(events) :]


def _to_ints(column: pa.ChunkedArray) -> Ints:
    numbers: Ints = pc.fill_null(column, 0).to_numpy().astype(np.int64)
    return numbers


class _PastEvents:
    """The events of some entities, and the decoding of folded values."""

    def __init__(self, view: View, events: pa.Table, entities: Ints) -> None:
        self._view, self._events, self._inputs = view, events, ViewInputs(view)
        self._entities = entities
        self._times_us = _to_ints(events["hr_time"])

    @cached_property
    def history(self) -> EventHistory:
        columns = {slot: self._slot_values(slot) for slot in self._inputs.slots}
        stream_count = len(self._view.streams)
        group_ids = (
            self._entities if stream_count == 1 else self._entities * stream_count + _to_ints(self._events["hr_stream"])
        )
        return EventHistory(group_ids, self._times_us, _to_ints(self._events["hr_known"]), columns, stream_count)

    def to_feature_column(self, feature: Feature, values: ValueColumn | MapColumn) -> pa.Array:
        """A feature's column in its output type."""
        slot, arrow_type = to_slot(feature.aggregate), output_type(feature, self._view)
        if isinstance(values, MapColumn):
            return self._to_maps(slot, values, arrow_type)
        if values.data.dtype == object:  # sums beyond 64 bits
            sums = zip(values.data.tolist(), values.valid.tolist(), strict=True)
            return pa.array([Decimal(total) if is_valid else None for total, is_valid in sums], LARGE_SUM_TYPE)
        if feature.aggregate.is_list_valued:
            return self._to_lists(slot, values, arrow_type)
        indices = pa.array(values.data, mask=~values.valid)
        history_input = slot.partial.history_input_of(slot.kind)
        if history_input is HistoryInput.EVENT_RANK:
            return _take_values(self._column_values(slot).take(pa.array(self._event_order)), indices, arrow_type)
        if history_input is HistoryInput.TEXT_RANK:
            return _take_values(self._rank_texts(slot)[0], indices, arrow_type)
        return indices.cast(arrow_type)

    def _to_lists(self, slot: AggregateSlot, values: ValueColumn, arrow_type: pa.DataType) -> pa.Array:
        """A list for each pair, null where it would be empty."""
        sizes = values.valid.sum(axis=1)
        ends = np.append(0, np.cumsum(sizes)).astype(np.int32)
        items = self._to_item_values(slot, values.data[values.valid], arrow_type.value_type)
        return pa.ListArray.from_arrays(pa.array(ends), items, mask=pa.array(sizes == 0))

    def _to_maps(self, slot: AggregateSlot, maps: MapColumn, arrow_type: pa.DataType) -> pa.Array:
        """A map for each pair, which may be empty."""
        entries = maps.entry_indices
        keys = self._to_item_values(slot, maps.keys[entries], arrow_type.key_type)
        return pa.MapArray.from_arrays(pa.array(maps.offsets, pa.int32()), keys, pa.array(maps.counts[entries]))

    def _to_item_values(self, slot: AggregateSlot, codes: Ints, arrow_type: pa.DataType) -> pa.Array:
        """The counted values, decoded: texts from their rank."""
        values = pa.array(codes)
        return (
            _take_values(self._rank_texts(slot)[0], values, arrow_type)
            if slot.kind is Kind.STRING
            else values.cast(arrow_type)
        )

    def _slot_values(self, slot: AggregateSlot) -> ValueColumn:
        is_counted = np.ones(len(self._events), np.bool_) if slot.where is None else self._condition_mask(slot.where)
        if slot.column is None:
            return ValueColumn(np.zeros(len(self._events), np.int64), is_counted)
        column = self._column_values(slot)
        is_counted &= column.is_valid().to_numpy(zero_copy_only=False)
        return ValueColumn(self._slot_data(slot, column), is_counted)

    def _slot_data(self, slot: AggregateSlot, column: pa.Array) -> np.ndarray:
        history_input = slot.partial.history_input_of(slot.kind)
        if history_input is HistoryInput.EVENT_RANK:
            return self._event_ranks
        if history_input is HistoryInput.TEXT_RANK:
            return self._rank_texts(slot)[1]
        if history_input is HistoryInput.COUPON:
            return _to_coupons(column)
        arrow_type = pa.float64() if slot.kind is Kind.DOUBLE else pa.int64()
        return np.asarray(pc.fill_null(column.cast(arrow_type), 0).to_numpy(zero_copy_only=False))

    def _column_values(self, slot: AggregateSlot) -> pa.Array:
        return self._events[f"v{self._inputs.value_columns.index(str(slot.column))}"].combine_chunks()

    def _condition_mask(self, condition: Expression) -> Mask:
        values = self._events[f"w{self._inputs.conditions.index(condition)}"]
        return np.array(pc.fill_null(values, False).to_numpy(), np.bool_)

    @cached_property
    def _event_order(self) -> Ints:
        """Events by time, id and stream; ids are compared only where times are equal."""
        by_time = np.argsort(self._times_us, kind="stable")
        sorted_us = self._times_us[by_time]
        if not (sorted_us[1:] == sorted_us[:-1]).any():
            return by_time
        keys = [(name, "ascending") for name in ("hr_id", "hr_stream") if name in self._events.column_names]
        by_id = pc.sort_indices(self._events.select([name for name, _ in keys]).combine_chunks(), keys).to_numpy()
        ordered: Ints = by_id[np.argsort(self._times_us[by_id], kind="stable")]
        return ordered

    @cached_property
    def _event_ranks(self) -> Ints:
        return np.argsort(self._event_order)

    def _rank_texts(self, slot: AggregateSlot) -> tuple[pa.Array, Ints]:
        """The distinct texts in order, and for each event the index of its text."""
        texts = self._column_values(slot)
        if slot.partial.is_sketch:
            texts = pc.utf8_slice_codeunits(texts, 0, MAX_TEXT_LENGTH)
        encoded = texts.dictionary_encode()
        order = pc.sort_indices(encoded.dictionary)
        ranks = np.argsort(order.to_numpy())
        codes = pc.fill_null(encoded.indices, 0).to_numpy(zero_copy_only=False)
        return encoded.dictionary.take(order), ranks[codes] if len(ranks) else codes.astype(np.int64)


def _take_values(values: pa.Array, indices: pa.Array, arrow_type: pa.DataType) -> pa.Array:
    return values.take(indices).cast(arrow_type)


def _to_coupons(column: pa.Array) -> Ints:
    """The sketch input of each value; each distinct one is hashed once."""
    encoded = column.dictionary_encode()
    coupons = np.array([to_coupon(value) for value in encoded.dictionary.to_pylist()] or [0], np.int64)
    event_coupons: Ints = coupons[pc.fill_null(encoded.indices, 0).to_numpy(zero_copy_only=False)]
    return event_coupons


def _on_demand_columns(view: View, stored_features: Mapping[str, pa.Array], spine: pa.Table) -> dict[str, pa.Array]:
    if not view.on_demand_features:
        return {}
    read_names = set[str]().union(*(field_names(tree) for tree in view.expressions))
    columns = {
        name: from_arrow(stored_features[name], view.expression_inputs.column(name, view.name).kind)
        for name in stored_features
        if name in read_names
    }
    for number, column in enumerate(view.request_columns):
        columns[column.name] = from_arrow(spine[f"r{number}"].combine_chunks(), column.kind)
    for number, column in enumerate(view.entity):
        columns[ENTITY_PREFIX + column.name] = from_arrow(spine[f"e{number}"].combine_chunks(), column.kind)
    results = OnDemandEvaluator(view).evaluate_columns(columns, len(spine))
    return {feature.name: to_arrow(results[feature.name], feature.kind) for feature in view.on_demand_features}


def _all_valid(table: pa.Table, names: Sequence[str]) -> Mask:
    valid: Mask = np.logical_and.reduce([table[name].is_valid().to_numpy() for name in names])
    return valid


def _status_column(history: EventHistory, pairs: EntityTimePairs) -> pa.Array:
    """Whether a row's entity is known, and had an event by then."""
    entities, at_us = pairs.entities, pairs.at_us
    first_us = np.full(int(max(entities.max(initial=0), history.entities.max(initial=0))) + 1, NEVER_US)
    np.minimum.at(first_us, history.entities, history.known_us)
    status = np.where(
        first_us[entities] == NEVER_US, UNKNOWN_ENTITY, np.where(first_us[entities] <= at_us, FOUND, BEFORE_FIRST_EVENT)
    )
    return pa.array(np.where(entities == NO_ENTITY, NO_KEY, status), pa.int8())
