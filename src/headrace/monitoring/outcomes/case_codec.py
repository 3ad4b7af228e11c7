"""Encodes cases for Spark's state."""

import math

import orjson

from headrace.monitoring.outcomes.outcomes import LabelEvent, OutcomeCase, PredictionEvent


def encode_case(case: OutcomeCase) -> bytes:
    """Encode a case; scores and labels are JSON numbers, and NaN is null."""
    predictions, labels = (
        [list(record) for record in records_by_key.values()] for records_by_key in (case.predictions, case.labels)
    )
    return orjson.dumps([case.clock_us, predictions, labels])


def decode_case(encoded: bytes) -> OutcomeCase:
    """Decode what `encode_case` wrote."""
    clock_us, predictions, labels = orjson.loads(encoded)
    case = OutcomeCase(clock_us)
    for version, role, score, *rest in predictions:
        case.add_prediction(PredictionEvent(version, role, math.nan if score is None else score, *rest))
    for label in labels:
        case.add_label(LabelEvent(*label))
    return case
