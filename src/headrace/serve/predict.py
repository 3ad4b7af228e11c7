"""POST /predict/MODEL: the score of an event, or of each event of a list."""

from math import isfinite
from typing import Any

from headrace.declare.schema import Kind
from headrace.score.vectors import Vector
from headrace.serve.answers import Answer, BadRequest, encode_json, not_finite
from headrace.serve.http import Request
from headrace.serve.predictor import Asked, Predictor, Scored

INCLUDE = {b"": False, b"include=false": False, b"include=true": True}


class Predict:
    """Answers for one model."""

    def __init__(self, predictor: Predictor) -> None:
        self._predictor = predictor
        self._model = predictor.model.name
        self._doubles = [column.name for column in predictor.model.known if column.kind is Kind.DOUBLE]

    async def __call__(self, request: Request) -> Answer:
        """The answer to one request: an object for an event, a list for a list."""
        include = included(request.query)
        events, are_listed = self._predictor.events.read(request.body, include)
        scored = await self._predictor.score_events(events, Asked.by(request), include)
        rows = [self._row(scored, place) for place in range(len(events))]
        return Answer(200, encode_json(rows if are_listed else rows[0]), headers=(scored.timing.header,))

    def _row(self, scored: Scored, place: int) -> dict[str, Any]:
        vector = scored.vectors[place]
        return {
            "score": scored.scores[place],
            "decision": scored.decisions[place],
            "model": self._model,
            "version": scored.versions[place],
            "features": self._features(vector),
            "age_ms": None if vector.event_time_us is None else (scored.at_us[place] - vector.event_time_us) // 1000,
            "degraded": scored.degraded[place],
        }

    def _features(self, vector: Vector) -> dict[str, Any]:
        features = self._predictor.vectors.named(vector)
        for name in self._doubles:
            value = features[name]
            if value is not None and not isfinite(value):
                features[name] = not_finite(value)
        return features


def included(query: bytes) -> bool:
    """Whether an event is to be folded into its own windows first."""
    if query not in INCLUDE:
        raise BadRequest(f"The query is {query[:80].decode(errors='replace')!r}. Write ?include=true, or nothing.")
    return INCLUDE[query]
