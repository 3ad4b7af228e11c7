"""POST /predict/MODEL: the score of an event, or of each event of a list."""

from math import isfinite
from typing import Any

from headrace.declare.streams.schema import Kind
from headrace.models.inference.feature_vectors import FeatureVector
from headrace.server.http.responses import BadRequest, Response, encode_json, non_finite_to_text
from headrace.server.http.routing import Request
from headrace.server.inference.predictor import Predictor, RequestContext, ScoringResult

INCLUDE_VALUES = {b"": False, b"include=false": False, b"include=true": True}


class PredictHandler:
    """Serves one model."""

    def __init__(self, predictor: Predictor) -> None:
        self._predictor = predictor
        self._model_name = predictor.model.name
        self._double_columns = [column.name for column in predictor.model.known if column.kind is Kind.DOUBLE]

    async def __call__(self, request: Request) -> Response:
        """The response to one request: an object for an event, a list for a list."""
        include = parse_include(request.query)
        events, is_list = self._predictor.event_reader.parse_body(request.body, include)
        result = await self._predictor.score_events(events, RequestContext.from_request(request), include)
        rows = [self._to_row(result, index) for index in range(len(events))]
        return Response(200, encode_json(rows if is_list else rows[0]), headers=(result.timing.header,))

    def _to_row(self, result: ScoringResult, index: int) -> dict[str, Any]:
        vector = result.vectors[index]
        return {
            "score": result.scores[index],
            "decision": result.decisions[index],
            "model": self._model_name,
            "version": result.versions[index],
            "features": self._feature_values(vector),
            "age_ms": None if vector.event_time_us is None else (result.at_us[index] - vector.event_time_us) // 1000,
            "degraded": result.degraded[index],
        }

    def _feature_values(self, vector: FeatureVector) -> dict[str, Any]:
        features = self._predictor.vector_reader.to_named_values(vector)
        for name in self._double_columns:
            value = features[name]
            if value is not None and not isfinite(value):
                features[name] = non_finite_to_text(value)
        return features


def parse_include(query: bytes) -> bool:
    """Whether an event is folded into its own windows first."""
    if query not in INCLUDE_VALUES:
        raise BadRequest(f"The query is {query[:80].decode(errors='replace')!r}. Write ?include=true, or nothing.")
    return INCLUDE_VALUES[query]
