"""Predictions: a score with everything it was made from, as the topic MODEL.predictions holds it.

A record's key is the event's id. Of several records with one id, version and role the first in the log counts: a
scorer that was killed may score an event again, two may score it at once, and every reader takes the same one.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import orjson

from headrace.declare.durations import UNITS_US

PredictionRole = Literal["champion", "challenger"]
PredictionSource = Literal["stream", "http"]

STALE = "stale"  # the store had not heard of the event in time
LATE = "late"  # the store had let go of the event's time: its features were read at a later one
MODEL_FAILED = "model"  # the model raised, or answered with no number; over HTTP another version scored instead
STORE_UNAVAILABLE = "store"  # scored on defaults: the store did not answer in time
BUDGET_EXCEEDED = "budget"  # answered after it was spent


@dataclass(frozen=True)
class Prediction:
    """One score of one event; times are in µs.

    `known` says by view what its vector was made of, hop by hop of each stream: events, and the arrival of the last.
    `read_at_us` is the time its features were asked for, `partition` and `offset` the event's place in the raw log.
    `answered` marks the score that was decided by: in the stream the champion's; over HTTP it may be a challenger's.
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
        """From the event's arrival in the log to the decision; None for an event no log has."""
        return None if self.arrival_us is None else (self.decided_at_us - self.arrival_us) / UNITS_US["ms"]


def encode_prediction(prediction: Prediction) -> bytes:
    """A prediction as its topic holds it."""
    return orjson.dumps({**_to_fields(prediction), "latency_ms": prediction.latency_ms})


def decode_prediction(value: bytes) -> Prediction:
    """What `encode` wrote."""
    document = orjson.loads(value)
    document.pop("latency_ms", None)
    return Prediction(**{**document, "degraded": tuple(document["degraded"])})


def _to_fields(prediction: Prediction) -> dict[str, Any]:
    return {name: getattr(prediction, name) for name in Prediction.__dataclass_fields__}
