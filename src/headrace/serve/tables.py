"""Columns that come with a request, by other protocols than ours: events, or vectors that are whole."""

from collections.abc import Mapping, Sequence
from typing import Any

from headrace.declare.schema import Kind
from headrace.score.vectors import Vector
from headrace.serve.answers import BadRequest
from headrace.serve.events import require_few
from headrace.serve.keys import shown
from headrace.serve.predictor import Asked, Predictor, Scored

Columns = Mapping[str, Sequence[Any]]

PLAIN: dict[Kind, tuple[type, ...]] = {
    Kind.STRING: (str,),
    Kind.BOOLEAN: (bool,),
    Kind.INTEGER: (int, float),  # a count may come in a tensor of floats; the model's input is one most often
    Kind.DOUBLE: (int, float),
}


class TableScorer:
    """Scores columns of plain values: a model's whole vector by the names of its columns, or columns of events."""

    def __init__(self, predictor: Predictor) -> None:
        self._predictor = predictor
        self._vector = predictor.model.vector
        self._schema = predictor.model.stream.schema

    async def scored(self, columns: Columns, by: Asked, include: bool = False) -> Scored:
        """The score of each row."""
        count = _rows(columns)
        require_few(count)
        if columns.keys() == set(self._vector.names):
            return await self._predictor.score_vectors(self._vectors(columns, count), by)
        for name in columns:
            if name not in self._schema:
                raise BadRequest(
                    f"There is no column {name!r}. Give columns of an event ({', '.join(self._schema.names)}) "
                    f"or the whole vector ({', '.join(self._vector.names)})."
                )
        events = [dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True)]
        return await self._predictor.score_events(self._predictor.events.checked(events, include), by, include)

    def _vectors(self, columns: Columns, count: int) -> list[Vector]:
        for column in self._vector:
            _require_kind(column.name, columns[column.name], column.kind)
        given = [columns.get(name, [None] * count) for name in self._predictor.vectors.names]
        return [Vector(values, (), None) for values in zip(*given, strict=True)]


def _rows(columns: Columns) -> int:
    counts = {len(values) for values in columns.values()}
    if len(counts) != 1:
        raise BadRequest(f"The columns have {sorted(counts)} rows. Give at least one column, and all of one length.")
    return counts.pop()


def _require_kind(name: str, values: Sequence[Any], kind: Kind) -> None:
    for value in values:
        if value is not None and type(value) not in PLAIN[kind]:
            raise BadRequest(f"{name} is {shown(value)}, and the model reads it as {kind.value}. Write such a value.")
