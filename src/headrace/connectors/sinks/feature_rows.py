"""A view's features as rows: one per changed entity, with the values that a server returns at that moment.

CardSpend.tiles ──▶ the table that a server keeps ──▶ one row of each entity that changed
      └ from the first tile on, also those already delivered: windows include older tiles

at ──────●────●──────●──▶      a row is as of the newest known time, so no value is ahead of the log
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from headrace.aggregates.sketches.frequent_items import key_text
from headrace.connectors.sinks.sink_rows import SinkRow, SinkRowReader, SinkRowValues
from headrace.declare.features.view import View
from headrace.declare.sinks.sink import Sink
from headrace.declare.sinks.sink_source import AS_OF, EVENT_TIME, self_contained_features
from headrace.declare.streams.schema import Column, Kind
from headrace.kafka.consumers.external_offset_consumer import ExternalOffset, ExternalOffsets
from headrace.kafka.record import ConsumerRecord, Partition
from headrace.online_store.changelog import TileChange
from headrace.online_store.memory.memory_store import ViewTable
from headrace.server.http.responses import encode_json
from headrace.tiles.events.on_demand_features import OnDemandEvaluator
from headrace.tiles.finish import to_datetime


class FeatureRowReader(SinkRowReader):
    """Reads the changelog of a view."""

    def __init__(self, sink: Sink, view: View) -> None:
        super().__init__(sink)
        self_contained_view = replace(
            view, on_demand_features=self_contained_features(view), lookups=(), request_columns=()
        )
        self._table, self._evaluator = ViewTable(view, max_cached_reads=0), OnDemandEvaluator(self_contained_view)
        self._value_names = (*view.by, *self_contained_view.names)
        self._newest_changes: dict[str, TileChange] = {}

    def start_offsets(self, offsets: Mapping[Partition, ExternalOffset]) -> ExternalOffsets:
        """The start of the changelog: windows need all tiles."""
        return {
            partition: ExternalOffset() if partition.topic == self._sink.source_topic else offset
            for partition, offset in offsets.items()
        }

    def observe_records(self, records: Sequence[ConsumerRecord]) -> None:
        """Apply the tiles of a batch; only the last change of each entity yields a row."""
        changes = ((record.location, self._table.apply(record)) for record in records)
        newest_by_entity = {change.entity: (location, change) for location, change in changes if change is not None}
        self._newest_changes = dict(newest_by_entity.values())

    def read_row(self, record: ConsumerRecord, offset: ExternalOffset) -> tuple[SinkRow | None, ExternalOffset]:
        if record.location not in self._newest_changes:
            return None, ExternalOffset(record.offset + 1, offset.last_raw_offset)
        return super().read_row(record, offset)

    def _read_values(self, record: ConsumerRecord) -> SinkRowValues:
        change = self._newest_changes[record.location]
        at_us = max(change.arrival_us, self._table.newest_time_us)
        lookup_result = self._table.read(change.entity, at_us)
        (on_demand_values,) = self._evaluator.evaluate_rows([lookup_result.values], [{}], [change.entity])
        values = dict(zip(self._value_names, (*change.entity, *lookup_result.values, *on_demand_values), strict=True))
        values |= {EVENT_TIME: lookup_result.event_time_us, AS_OF: at_us}
        return {column.name: _to_column_value(column, values[column.name]) for column in self._schema}


def create_row_reader(sink: Sink) -> SinkRowReader:
    """The reader for the records of a sink's source."""
    return FeatureRowReader(sink, sink.of) if isinstance(sink.of, View) else SinkRowReader(sink)


def _to_column_value(column: Column, value: Any) -> Any:
    """Convert a value to its column's type: lists and maps to JSON, sums of integers to doubles (64-bit overflow)."""
    match value:
        case None:
            return None
        case dict():
            return encode_json({key_text(key): count for key, count in value.items()}).decode()
        case list():
            return encode_json(value).decode()
        case int() if column.kind is Kind.TIMESTAMP:
            return to_datetime(value)
    return float(value) if column.kind is Kind.DOUBLE else value
