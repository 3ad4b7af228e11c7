"""Writes served predictions to the log: queued by the server, written by a thread of its own; losses are counted.

request ──▶ response
   └──▶ bounded queue ──▶ thread ──▶ MODEL.predictions
             └ full: counted as lost, and logged once
"""

import logging
import threading
import uuid
from collections import Counter, deque
from collections.abc import Iterator, Sequence
from itertools import count
from typing import NamedTuple, Self

from headrace.declare.models.model import Model
from headrace.kafka.headers import TRACEPARENT_HEADER
from headrace.kafka.producer.producer import DeliveryFailed, Producer
from headrace.models.inference.feature_vectors import FeatureVector, FeatureVectorReader
from headrace.models.inference.prediction import Prediction, PredictionRole, encode_prediction
from headrace.models.versions.version_loader import LoadedVersion
from headrace.tiles.events.event_parser import Event

MAX_WAITING = 20_000
WRITE_SECONDS = 0.02  # in batches: each wake-up of this thread may delay the threads that answer requests
CHALLENGER_TIMEOUT_SECONDS = 1.0  # a challenger that hangs is skipped for these vectors
LOGGER = logging.getLogger("headrace.serve")


class PredictionBatch(NamedTuple):
    """The predictions of a request, and what is needed to log them; vectors that came whole have no events.

    `scored_by` has the version of each served score: the champion, the version before it, or a challenger with a share.
    """

    model: Model
    vector_reader: FeatureVectorReader
    champion: LoadedVersion
    challengers: tuple[LoadedVersion, ...]
    events: Sequence[Event]
    vectors: Sequence[FeatureVector]
    scored_by: Sequence[LoadedVersion]
    scores: Sequence[float]
    at_us: Sequence[int]
    degraded: Sequence[tuple[str, ...]]
    decided_at_us: int
    traceparent: bytes | None = None


class PredictionLog:
    """A bounded queue of predictions that a thread writes; without a producer it keeps none."""

    def __init__(self, producer: Producer | None = None, max_waiting: int = MAX_WAITING) -> None:
        self._producer, self._max_waiting = producer, max_waiting
        self._queue: deque[PredictionBatch] = deque()
        self._enqueued_count = self._written_count = 0  # each counted by one thread alone
        self._lost_counts: Counter[str] = Counter()
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._write_until_stopped, name="predictions", daemon=True)
        self._request_numbers, self._id_prefix = count(), f"http-{uuid.uuid4().hex[:12]}"

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_failure: object) -> None:
        self._stop.set()
        self._thread.join()

    def enqueue(self, batch: PredictionBatch) -> None:
        """Queue predictions for writing; those that do not fit are lost, counted and logged."""
        if self._producer is None:
            return
        if self._enqueued_count - self._written_count + len(batch.vectors) > self._max_waiting:
            self._count_lost(batch, f"more than {self._max_waiting} wait for the broker")
            return
        self._enqueued_count += len(batch.vectors)
        self._queue.append(batch)

    def lost_counts(self) -> Counter[str]:
        """How many predictions of each model were lost."""
        undelivered = self._producer.undelivered_counts if self._producer else Counter()
        return self._lost_counts + Counter({name.removesuffix(".predictions"): n for name, n in undelivered.items()})

    def _count_lost(self, batch: PredictionBatch, reason: str) -> None:
        if not self._lost_counts[batch.model.name]:
            LOGGER.error(
                "predictions of %s are lost: %s. headrace_predictions_lost counts them", batch.model.name, reason
            )
        self._lost_counts[batch.model.name] += len(batch.vectors)

    def _write_until_stopped(self) -> None:
        while not self._stop.wait(WRITE_SECONDS):
            self._write_queued()
            if self._producer:
                self._producer.poll_deliveries()
        self._write_queued()
        try:
            if self._producer:
                self._producer.flush()
        except DeliveryFailed as problem:
            LOGGER.error("Lost predictions: %s", problem)

    def _write_queued(self) -> None:
        while self._queue:
            batch = self._queue.popleft()
            try:
                self._send_batch(batch)
            except Exception as failure:  # noqa: BLE001 - a failed write must not hold back the others
                self._count_lost(batch, f"{type(failure).__name__}: {failure}")
            self._written_count += len(batch.vectors)

    def _send_batch(self, batch: PredictionBatch) -> None:
        if self._producer is None:
            return
        event_ids = [event[batch.model.stream.id] for event in batch.events] or [None] * len(batch.vectors)
        prediction_ids = [self._prediction_id(event_id) for event_id in event_ids]
        for index, version_score in _all_scores(batch):
            prediction = _to_prediction(batch, index, prediction_ids[index], version_score)
            key, headers = str(prediction.event_id), TRACEPARENT_HEADER.write_optional(batch.traceparent)
            self._producer.send(batch.model.predictions, encode_prediction(prediction), key=key, headers=headers)

    def _prediction_id(self, event_id: object) -> object:
        return f"{self._id_prefix}-{next(self._request_numbers)}" if event_id is None else event_id


class _VersionScore(NamedTuple):
    """One score of a vector: the version, its role, and whether the score was served."""

    loaded_version: LoadedVersion
    role: PredictionRole
    score: float
    is_served: bool


def _all_scores(batch: PredictionBatch) -> Iterator[tuple[int, _VersionScore]]:
    """The served score of each vector and the scores of versions in shadow, by the index of the vector."""
    for index, (loaded_version, score) in enumerate(zip(batch.scored_by, batch.scores, strict=True)):
        yield (
            index,
            _VersionScore(
                loaded_version,
                "challenger" if loaded_version in batch.challengers else "champion",
                score,
                is_served=True,
            ),
        )
    split_indexes = [position for position, by in enumerate(batch.scored_by) if by in batch.challengers]
    yield from _shadow_scores(batch, batch.champion, "champion", split_indexes)
    for challenger in batch.challengers:
        shadow_indexes = [position for position, by in enumerate(batch.scored_by) if by is not challenger]
        yield from _shadow_scores(batch, challenger, "challenger", shadow_indexes)


def _shadow_scores(
    batch: PredictionBatch, loaded_version: LoadedVersion, role: PredictionRole, indexes: Sequence[int]
) -> Iterator[tuple[int, _VersionScore]]:
    if not indexes:
        return
    rows = batch.vector_reader.scorer_rows(loaded_version.scorer, [batch.vectors[index] for index in indexes])
    scores: list[float] = loaded_version.scorer.score_rows(rows, CHALLENGER_TIMEOUT_SECONDS).tolist()
    for position, score in zip(indexes, scores, strict=True):
        yield position, _VersionScore(loaded_version, role, score, is_served=False)


def _to_prediction(batch: PredictionBatch, index: int, event_id: object, version_score: _VersionScore) -> Prediction:
    vector = batch.vectors[index]
    return Prediction(
        event_id=event_id,
        score=version_score.score,
        decision=batch.model.decision(version_score.score),
        model=batch.model.name,
        version=version_score.loaded_version.version,
        role=version_score.role,
        source="http",
        features=batch.vector_reader.to_named_values(vector),
        known=vector.provenance_by_view,
        degraded=batch.degraded[index] if version_score.is_served else (),
        event_time_us=batch.events[index][batch.model.stream.time] if batch.events else None,
        arrival_us=None,
        read_at_us=batch.at_us[index],
        decided_at_us=batch.decided_at_us,
        answered=version_score.is_served,
    )
