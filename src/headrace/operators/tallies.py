"""The aggregates of a window, kept side by side: what each event adds, what two windows have together."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

from headrace.declare.aggregates import Aggregate
from headrace.declare.expressions import Expression, Field
from headrace.declare.schema import TYPES, Kind, Schema
from headrace.declare.windowed import Windowing
from headrace.operators.accumulators import Accumulator, accumulator_of
from headrace.operators.conditions import reading
from headrace.operators.operator import Arrived
from headrace.operators.plain import from_plain, plain

Values = dict[str, Any]
Reads = Callable[[Mapping[str, Any]], Any]


@dataclass
class Tally:
    """How many events a window has, and what its aggregates have of them."""

    events: int
    parts: list[Accumulator]


class _Column(NamedTuple):
    """A column of the results: what is read of an event for it, null where it does not count."""

    name: str
    aggregate: Aggregate
    kind: Kind
    reads: Reads


class Tallies:
    """Keeps the tallies of a windowing."""

    def __init__(self, what: Windowing) -> None:
        self._columns = [
            _Column(one.name, one.aggregate, TYPES[one.type], _reads(one.aggregate, what.schema))
            for one in what.measures
        ]

    def begin(self) -> Tally:
        return Tally(0, [accumulator_of(column.aggregate) for column in self._columns])

    def add(self, tally: Tally, event: Arrived) -> None:
        tally.events += 1
        for column, part in zip(self._columns, tally.parts, strict=True):
            value = column.reads(event.values)
            if value is not None:
                part.add(value, event.time_us, event.id)

    def together(self, *tallies: Tally) -> Tally:
        """What several have, which stay as they are."""
        both = self.begin()
        for tally in tallies:
            both.events += tally.events
            for part, other in zip(both.parts, tally.parts, strict=True):
                part.absorb(other)
        return both

    def values(self, tally: Tally) -> Values:
        return {column.name: part.value() for column, part in zip(self._columns, tally.parts, strict=True)}

    def packed(self, tally: Tally) -> list[Any]:
        return [tally.events, [part.packed() for part in tally.parts]]

    def unpacked(self, written: list[Any]) -> Tally:
        tally = self.begin()
        tally.events = written[0]
        for part, one in zip(tally.parts, written[1], strict=True):
            part.unpack(one)
        return tally

    def packed_values(self, values: Values) -> list[Any]:
        return [plain(values[column.name]) for column in self._columns]

    def unpacked_values(self, written: list[Any]) -> Values:
        return {
            column.name: from_plain(value, column.kind) for column, value in zip(self._columns, written, strict=True)
        }


def _reads(aggregate: Aggregate, schema: Schema) -> Reads:
    reads = _value_of(aggregate, schema)
    return reads if aggregate.where is None else _if_holds(aggregate.where, reads, schema)


def _value_of(aggregate: Aggregate, schema: Schema) -> Reads:
    return (lambda _: 1) if aggregate.column is None else reading(Field(aggregate.column), schema)


def _if_holds(where: Expression, reads: Reads, schema: Schema) -> Reads:
    """Null is not true: what the condition says nothing of does not count."""
    holds = reading(where, schema)
    return lambda row: reads(row) if holds(row) else None
