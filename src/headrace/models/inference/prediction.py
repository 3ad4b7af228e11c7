"""Predictions: a score with everything it was computed from, as a record of the topic MODEL.predictions.

A record's key is the event's id. Among several records with one id, version and role the first in the log counts:
after a crash a scorer may score an event again, two may score it at once, and every reader chooses the same one.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import orjson

from headrace.declare.durations import UNITS_US

PredictionRole = Literal["champion", "challenger"]
PredictionSource = Literal["stream", "http"]

STALE = "stale"  # the store had not applied the event in time
LATE = "late"  # the event's time was beyond the store's retention: features were read at a later one
MODEL_FAILED = "model"  # the model raised, or returned no number; over HTTP another version scored instead
STORE_UNAVAILABLE = "store"  # scored on defaults: the store did not answer in time
BUDGET_EXCEEDED = "budget"  # answered after the budget


@dataclass(frozen=True)
class Prediction:
    """One score of one event; times are in µs.

    `known` has by view the provenance of its vector, by hop and stream: event count, and the arrival of the last one.
    `read_at_us` is the time its features were read at, `partition` and `offset` the event's position in the raw log.
    `answered` marks the score that was served: in the stream the champion's; over HTTP it may be a challenger's.
    """

    event_id: Any
    score: float | None
    decision: str | None
    model: str
    version: str
    role: PredictionRole
    source: PredictionSource
    features: Mapping[str, Any]
    known: Mapping[str, Sequence[Sequence[int]]]
    degraded: tuple[str, ...]
    event_time_us: int | None
    arrival_us: int | None
    read_at_us: int
    decided_at_us: int
    partition: int | None = None
    offset: int | None = None
    answered: bool = True

    @property
    def latency_ms(self) -> float | None:
        """From the event's arrival in the log to the decision; None for an event that is in no log."""
        return None if self.arrival_us is None else (self.decided_at_us - self.arrival_us) / UNITS_US["ms"]


def encode_prediction(prediction: Prediction) -> bytes:
    """Encode a prediction as a record value."""
    return orjson.dumps({**_to_fields(prediction), "latency_ms": prediction.latency_ms})


def decode_prediction(value: bytes) -> Prediction:
    """Decode what `encode_prediction` wrote."""
    document = orjson.loads(value)
    document.pop("latency_ms", None)
    return Prediction(**{**document, "degraded": tuple(document["degraded"])})


def _to_fields(prediction: Prediction) -> dict[str, Any]:
    return {name: getattr(prediction, name) for name in Prediction.__dataclass_fields__}
