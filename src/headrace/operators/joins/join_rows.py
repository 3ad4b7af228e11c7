"""The common part of joins: timers, and the output events of rows."""

from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

import orjson

from headrace.declare.operations.join import AsofJoin, Join
from headrace.declare.operations.join_inputs import KIND, RETRACTS, STREAM
from headrace.operators.joins.event_timeline import JoinRow, RowPosition
from headrace.operators.operator import InputEvent, Key, OutputEvent

LEFT, RIGHT = 0, 1


class JoinTimer(NamedTuple):
    """A timer of a row of one side; a heap of these orders the work of a join."""

    at_us: int
    input_index: int
    position: RowPosition


class JoinRowBuilder:
    """Creates the output events of a join from its rows; the columns of a missing side are null."""

    def __init__(self, spec: Join | AsofJoin) -> None:
        self._sides, self._keys, self._late_policy = (spec.left, spec.right), spec.keys, spec.then
        self._columns = [[column for column, _ in side.columns] for side in self._sides]
        self._output_names = [[output for _, output in side.columns] for side in self._sides]
        self._null_values: dict[str, Any] = dict.fromkeys(output for names in self._output_names for output in names)
        self._retraction_columns: dict[str, Any] = {KIND: "result", RETRACTS: None} if spec.retracts else {}

    def select_values(self, event: InputEvent) -> list[Any]:
        """The values of an event that a join stores."""
        return [event.values[column] for column in self._columns[event.input_index]]

    def joined_row(self, key: Key, left: JoinRow | None, right: JoinRow | None, known_us: int) -> OutputEvent:
        """The output of a left and a right event, or of one of them."""
        time_us = max(row.time_us for row in (left, right) if row is not None)
        values = self._values(key, left, right) | self._retraction_columns
        return OutputEvent("out", joined_row_id(left, right), time_us, known_us, values)

    def retraction(self, row: OutputEvent, known_us: int) -> OutputEvent:
        """The retraction of an output: the same values, and the id of the retracted row."""
        retraction_id = orjson.dumps([*orjson.loads(row.id), "retracted"]).decode()
        return row._replace(
            id=retraction_id, known_us=known_us, values=row.values | {KIND: "retraction", RETRACTS: row.id}
        )

    def late_event_rows(self, key: Key, event: InputEvent) -> Iterable[OutputEvent]:
        """The output of a late event: a row of its own, or nothing where late events are dropped."""
        row = JoinRow(event.time_us, event.arrival_us, event.id, self.select_values(event))
        return self.late_rows(key, event.input_index, *((row, None) if event.input_index == LEFT else (None, row)))

    def late_rows(
        self, key: Key, input_index: int, left: JoinRow | None, right: JoinRow | None
    ) -> Iterable[OutputEvent]:
        """A row that is late because one of its events was."""
        if self._late_policy == "drop":
            return ()
        output = self.joined_row(key, left, right, max(row.arrival_us for row in (left, right) if row is not None))
        values = {name: value for name, value in output.values.items() if name not in (KIND, RETRACTS)}
        return (output._replace(output="late", values=values | {STREAM: self._sides[input_index].name}),)

    def _values(self, key: Key, left: JoinRow | None, right: JoinRow | None) -> dict[str, Any]:
        values = dict(self._null_values)
        for names, row in zip(self._output_names, (left, right), strict=True):
            if row is not None:
                values.update(zip(names, row.values, strict=False))  # a column that was added later is null
        values.update(zip(self._keys, key, strict=True))
        return values


def joined_row_id(left: JoinRow | None, right: JoinRow | None) -> str:
    """The id of a row: the ids of its events, null where there is none."""
    return orjson.dumps([row and row.id for row in (left, right)]).decode()


def decode_timer(encoded: Sequence[Any]) -> JoinTimer:
    """Decode a timer."""
    at_us, input_index, (time_us, arrival_us, row_id) = encoded
    return JoinTimer(at_us, input_index, (time_us, arrival_us, row_id))
