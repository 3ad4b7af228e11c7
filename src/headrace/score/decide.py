"""From vectors to predictions: every version that stands scores the same vector."""

import logging
import time
from collections.abc import Iterator, Sequence
from math import isfinite
from typing import Any, NamedTuple

from headrace.declare.durations import UNITS_US
from headrace.declare.model import Model
from headrace.score.champions import Loaded
from headrace.score.limits import TooSlow
from headrace.score.lineup import Standing
from headrace.score.prediction import MODEL, Prediction, Role
from headrace.score.vectors import Vector, Vectors
from headrace.tiles.events import Event

LOGGER = logging.getLogger("headrace.score")

Scores = list[float | None]


class Arrived(NamedTuple):
    """An event of the log, at whose time its vector was read, and what is less than it should be about that."""

    event: Event
    arrival_us: int
    partition: int
    offset: int
    read_at_us: int
    degraded: tuple[str, ...]


def predictions(
    model: Model, standing: Standing, vectors: Vectors, read: Sequence[tuple[Arrived, Vector]]
) -> Iterator[Prediction]:
    """The champion's predictions of these events, then each challenger's."""
    made = [vector for _, vector in read]
    named = list(map(vectors.named, made))
    for role, loaded in standing_by_role(standing):
        scores = scores_of(loaded, vectors.rows(loaded.scorer, made), model.budget_us / UNITS_US["s"])
        decided_at_us = time.time_ns() // 1000
        for (one, vector), features, score in zip(read, named, scores, strict=True):
            yield Prediction(
                event_id=one.event[model.stream.id],
                score=score,
                decision=None if score is None else model.decision(score),
                model=model.name,
                version=loaded.version,
                role=role,
                source="stream",
                features=features,
                known=vector.known,
                degraded=one.degraded if score is not None else (*one.degraded, MODEL),
                event_time_us=one.event[model.stream.time],
                arrival_us=one.arrival_us,
                read_at_us=one.read_at_us,
                decided_at_us=decided_at_us,
                partition=one.partition,
                offset=one.offset,
                answered=role == "champion",
            )


def standing_by_role(standing: Standing) -> Iterator[tuple[Role, Loaded]]:
    """Whoever scores, the champion first."""
    yield "champion", standing.champion
    for loaded in standing.challengers:
        yield "challenger", loaded


def scores_of(loaded: Loaded, rows: Sequence[Sequence[Any]], within_s: float) -> Scores:
    """The score of each row; None where the model raises or answers with no number, for that row alone.

    A model that does not answer in time is not asked again for each row: that would take as many times as long.
    """
    try:
        found = loaded.scorer.score_rows(rows, within_s)
    except TooSlow as failure:
        LOGGER.warning("%s", failure)
        return [None] * len(rows)
    except Exception as failure:  # noqa: BLE001 - whatever a model raises, the stream goes on
        if len(rows) > 1:
            return [score for row in rows for score in scores_of(loaded, [row], within_s)]
        LOGGER.warning("version %s fails on %s: %s", loaded.version, rows, failure)
        return [None]
    return [score if isfinite(score) else None for score in found.tolist()]
