"""A view's features as rows: of each entity whose tiles have changed, what a server answers at that moment.

CardSpend.tiles ──▶ the table that a server keeps ──▶ one row of each entity that changed
      └ from the beginning on, also what was brought before: windows are made of older tiles too

at ──────●────●──────●──▶      a row is as of the newest time that was known, so nothing in it is ahead of the log
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from headrace.declare.schema import Column, Kind
from headrace.declare.sink import Sink
from headrace.declare.sunk import AS_OF, EVENT_TIME, computed_of
from headrace.declare.views import View
from headrace.log.placed import Place, Places
from headrace.log.records import Partition, Record
from headrace.serve.answers import encode_json
from headrace.sink.rows import Reader, Row, Values
from headrace.store.changelog import Change
from headrace.store.memory import Table
from headrace.tiles.derive import Deriver
from headrace.tiles.finish import moment
from headrace.tiles.frequent import key_text


class ViewReader(Reader):
    """Reads the changelog of a view."""

    def __init__(self, sink: Sink, view: View) -> None:
        super().__init__(sink)
        told = replace(view, derived=computed_of(view), joined=(), requested=())
        self._table, self._deriver = Table(view, known_at_most=0), Deriver(told)
        self._names = (*view.by, *told.names)
        self._news: dict[str, Change] = {}

    def begins(self, places: Mapping[Partition, Place]) -> Places:
        """Tiles are read from the first one on."""
        return {at: Place() if at.topic == self._sink.topic else place for at, place in places.items()}

    def learn(self, records: Sequence[Record]) -> None:
        """Take the tiles of records that come together: of each entity the last one is news."""
        changes = ((record.place, self._table.apply(record)) for record in records)
        newest = {change.entity: (place, change) for place, change in changes if change is not None}
        self._news = dict(newest.values())

    def row(self, record: Record, place: Place) -> tuple[Row | None, Place]:
        if record.place not in self._news:
            return None, Place(record.offset + 1, place.last_raw)
        return super().row(record, place)

    def _values(self, record: Record) -> Values:
        change = self._news[record.place]
        at_us = max(change.arrival_us, self._table.now_us)
        read = self._table.read(change.entity, at_us)
        (derived,) = self._deriver.rows([read.values], [{}], [change.entity])
        values = dict(zip(self._names, (*change.entity, *read.values, *derived), strict=True))
        values |= {EVENT_TIME: read.event_time_us, AS_OF: at_us}
        return {column.name: _written(column, values[column.name]) for column in self._schema}


def reader_of(sink: Sink) -> Reader:
    """Who reads the records of what a sink is of."""
    return ViewReader(sink, sink.of) if isinstance(sink.of, View) else Reader(sink)


def _written(column: Column, value: Any) -> Any:
    """A value as its column has it: lists and maps as JSON, sums of integers as doubles, for they may pass 64 bits."""
    match value:
        case None:
            return None
        case dict():
            return encode_json({key_text(key): count for key, count in value.items()}).decode()
        case list():
            return encode_json(value).decode()
        case int() if column.kind is Kind.TIMESTAMP:
            return moment(value)
    return float(value) if column.kind is Kind.DOUBLE else value
