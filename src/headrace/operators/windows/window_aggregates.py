"""The aggregates of a window: updated by events, and merged with other windows."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

from headrace.aggregates.accumulator import Accumulator
from headrace.aggregates.aggregate_function import aggregate_function
from headrace.aggregates.json_values import from_json_value, to_json_value
from headrace.declare.expressions import Expression, Field
from headrace.declare.features.aggregates import Aggregate
from headrace.declare.operations.windowed_stream import Windowing
from headrace.declare.streams.schema import KIND_OF_TYPE, Kind, Schema
from headrace.operators.operator import InputEvent
from headrace.operators.row_expressions import compile_expression

ResultValues = dict[str, Any]
ColumnReader = Callable[[Mapping[str, Any]], Any]


@dataclass
class WindowAggregateState:
    """The number of events of a window, and the state of its aggregates."""

    event_count: int
    accumulators: list[Accumulator]


class _ResultColumn(NamedTuple):
    """A result column: its input from an event, null where the event does not count."""

    name: str
    aggregate: Aggregate
    kind: Kind
    read_value: ColumnReader


class WindowAggregator:
    """Updates and merges the aggregates of a windowing."""

    def __init__(self, spec: Windowing) -> None:
        self._columns = [
            _ResultColumn(
                measure.name,
                measure.aggregate,
                KIND_OF_TYPE[measure.type],
                _column_reader(measure.aggregate, spec.schema),
            )
            for measure in spec.measures
        ]

    def create_state(self) -> WindowAggregateState:
        return WindowAggregateState(
            0,
            [
                aggregate_function(column.aggregate.function).create_accumulator(column.aggregate)
                for column in self._columns
            ],
        )

    def add_event(self, state: WindowAggregateState, event: InputEvent) -> None:
        state.event_count += 1
        for column, accumulator in zip(self._columns, state.accumulators, strict=True):
            value = column.read_value(event.values)
            if value is not None:
                accumulator.add(value, event.time_us, event.id)

    def merge_states(self, *states: WindowAggregateState) -> WindowAggregateState:
        """Merge states without changing them."""
        merged = self.create_state()
        for state in states:
            merged.event_count += state.event_count
            for accumulator, other in zip(merged.accumulators, state.accumulators, strict=True):
                accumulator.merge(other)
        return merged

    def compute_results(self, state: WindowAggregateState) -> ResultValues:
        return {
            column.name: accumulator.result()
            for column, accumulator in zip(self._columns, state.accumulators, strict=True)
        }

    def encode_state(self, state: WindowAggregateState) -> list[Any]:
        return [state.event_count, [accumulator.encode_state() for accumulator in state.accumulators]]

    def decode_state(self, encoded: list[Any]) -> WindowAggregateState:
        state = self.create_state()
        state.event_count = encoded[0]
        for accumulator, encoded_part in zip(state.accumulators, encoded[1], strict=True):
            accumulator.restore_state(encoded_part)
        return state

    def encode_results(self, results: ResultValues) -> list[Any]:
        return [to_json_value(results[column.name]) for column in self._columns]

    def decode_results(self, encoded: list[Any]) -> ResultValues:
        return {
            column.name: from_json_value(value, column.kind)
            for column, value in zip(self._columns, encoded, strict=True)
        }


def _create_accumulator(aggregate: Aggregate) -> Accumulator:
    return aggregate_function(aggregate.function).create_accumulator(aggregate)


def _column_reader(aggregate: Aggregate, schema: Schema) -> ColumnReader:
    read_value = _value_reader(aggregate, schema)
    return read_value if aggregate.where is None else _filtered_reader(aggregate.where, read_value, schema)


def _value_reader(aggregate: Aggregate, schema: Schema) -> ColumnReader:
    return (lambda _: 1) if aggregate.column is None else compile_expression(Field(aggregate.column), schema)


def _filtered_reader(where: Expression, read_value: ColumnReader, schema: Schema) -> ColumnReader:
    """Null is not true: an event for which the condition is null does not count."""
    is_match = compile_expression(where, schema)
    return lambda row: read_value(row) if is_match(row) else None
