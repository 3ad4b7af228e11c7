"""From vectors to predictions: every live version scores the same vector."""

import logging
import time
from collections.abc import Iterator, Sequence
from math import isfinite
from typing import Any, NamedTuple

from headrace.declare.durations import UNITS_US
from headrace.declare.models.model import Model
from headrace.models.inference.feature_vectors import FeatureVector, FeatureVectorReader
from headrace.models.inference.prediction import MODEL_FAILED, Prediction, PredictionRole
from headrace.models.inference.time_limits import ModelTimeoutError
from headrace.models.versions.live_versions import LiveVersions
from headrace.models.versions.version_loader import LoadedVersion
from headrace.tiles.events.event_parser import Event

LOGGER = logging.getLogger("headrace.score")

NullableScores = list[float | None]


class LoggedEvent(NamedTuple):
    """An event of the log, the time its vector was read at, and why that is degraded."""

    event: Event
    arrival_us: int
    partition: int
    offset: int
    read_at_us: int
    degraded: tuple[str, ...]


def build_predictions(
    model: Model,
    live_versions: LiveVersions,
    vector_reader: FeatureVectorReader,
    events_with_vectors: Sequence[tuple[LoggedEvent, FeatureVector]],
) -> Iterator[Prediction]:
    """The champion's predictions of these events, then each challenger's."""
    feature_vectors = [vector for _, vector in events_with_vectors]
    named_features = list(map(vector_reader.to_named_values, feature_vectors))
    for role, loaded in versions_by_role(live_versions):
        scores = score_rows_or_none(
            loaded, vector_reader.scorer_rows(loaded.scorer, feature_vectors), model.budget_us / UNITS_US["s"]
        )
        decided_at_us = time.time_ns() // 1000
        for (logged_event, vector), features, score in zip(events_with_vectors, named_features, scores, strict=True):
            yield Prediction(
                event_id=logged_event.event[model.stream.id],
                score=score,
                decision=None if score is None else model.decision(score),
                model=model.name,
                version=loaded.version,
                role=role,
                source="stream",
                features=features,
                known=vector.provenance_by_view,
                degraded=logged_event.degraded if score is not None else (*logged_event.degraded, MODEL_FAILED),
                event_time_us=logged_event.event[model.stream.time],
                arrival_us=logged_event.arrival_us,
                read_at_us=logged_event.read_at_us,
                decided_at_us=decided_at_us,
                partition=logged_event.partition,
                offset=logged_event.offset,
                answered=role == "champion",
            )


def versions_by_role(live_versions: LiveVersions) -> Iterator[tuple[PredictionRole, LoadedVersion]]:
    """The live versions with their roles, the champion first."""
    yield "champion", live_versions.champion
    for loaded in live_versions.challengers:
        yield "challenger", loaded


def score_rows_or_none(loaded: LoadedVersion, rows: Sequence[Sequence[Any]], timeout_s: float) -> NullableScores:
    """The score of each row; None for each row on which the model raises or returns no number.

    After a time-out it does not retry row by row, which would take many times as long.
    """
    try:
        raw_scores = loaded.scorer.score_rows(rows, timeout_s)
    except ModelTimeoutError as failure:
        LOGGER.warning("%s", failure)
        return [None] * len(rows)
    except Exception as failure:  # noqa: BLE001 - any error of a model must not stop the stream
        if len(rows) > 1:
            return [score for row in rows for score in score_rows_or_none(loaded, [row], timeout_s)]
        LOGGER.warning("Version %s failed on %s: %s", loaded.version, rows, failure)
        return [None]
    return [score if isfinite(score) else None for score in raw_scores.tolist()]
