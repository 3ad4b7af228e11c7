"""Columns of a request in other protocols than ours: columns of events, or of whole vectors."""

from collections.abc import Mapping, Sequence
from typing import Any

from headrace.declare.streams.schema import Kind
from headrace.models.inference.feature_vectors import FeatureVector
from headrace.server.features.entity_keys import short_json
from headrace.server.http.responses import BadRequest
from headrace.server.inference.predictor import Predictor, RequestContext, ScoringResult
from headrace.server.inference.request_events import require_event_limit

Columns = Mapping[str, Sequence[Any]]

ACCEPTED_TYPES: dict[Kind, tuple[type, ...]] = {
    Kind.STRING: (str,),
    Kind.BOOLEAN: (bool,),
    Kind.INTEGER: (int, float),  # clients often send counts in a tensor of floats
    Kind.DOUBLE: (int, float),
}


class TableScorer:
    """Scores columns of plain values: a model's whole vector by column name, or columns of events."""

    def __init__(self, predictor: Predictor) -> None:
        self._predictor = predictor
        self._vector_schema = predictor.model.vector
        self._schema = predictor.model.stream.schema

    async def score_columns(self, columns: Columns, context: RequestContext, include: bool = False) -> ScoringResult:
        """The score of each row."""
        row_count = _row_count(columns)
        require_event_limit(row_count)
        if columns.keys() == set(self._vector_schema.names):
            return await self._predictor.score_vectors(self._to_vectors(columns, row_count), context)
        for name in columns:
            if name not in self._schema:
                raise BadRequest(
                    f"There is no column {name!r}. Give columns of an event ({', '.join(self._schema.names)}) "
                    f"or the whole vector ({', '.join(self._vector_schema.names)})."
                )
        events = [dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True)]
        return await self._predictor.score_events(
            self._predictor.event_reader.parse_rows(events, include), context, include
        )

    def _to_vectors(self, columns: Columns, row_count: int) -> list[FeatureVector]:
        for column in self._vector_schema:
            _require_kind(column.name, columns[column.name], column.kind)
        column_values = [columns.get(name, [None] * row_count) for name in self._predictor.vector_reader.names]
        return [FeatureVector(values, (), None) for values in zip(*column_values, strict=True)]


def _row_count(columns: Columns) -> int:
    counts = {len(values) for values in columns.values()}
    if len(counts) != 1:
        raise BadRequest(f"The columns have {sorted(counts)} rows. Give at least one column, and all of one length.")
    return counts.pop()


def _require_kind(name: str, values: Sequence[Any], kind: Kind) -> None:
    for value in values:
        if value is not None and type(value) not in ACCEPTED_TYPES[kind]:
            raise BadRequest(
                f"{name} is {short_json(value)}, and the model reads it as {kind.value}. Write such a value."
            )
