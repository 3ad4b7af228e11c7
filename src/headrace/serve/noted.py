"""Predictions on their way to the log: noted by the server, written by a thread of their own, never lost in silence.

request ──▶ answer
   └──▶ so many at most ──▶ thread ──▶ MODEL.predictions
         └ one more: counted as lost, and said once
"""

import logging
import threading
import uuid
from collections import Counter, deque
from collections.abc import Iterator, Sequence
from itertools import count
from typing import NamedTuple, Self

from headrace.declare.model import Model
from headrace.log.produce import NotDelivered, Producer
from headrace.log.traceparent import passed_on
from headrace.score.champions import Loaded
from headrace.score.prediction import Prediction, Role, encode
from headrace.score.vectors import Vector, Vectors
from headrace.tiles.events import Event

MOST_WAITING = 20_000
EVERY_SECONDS = 0.02  # in batches: each time this thread wakes, whoever answers requests may wait for it
WITHIN_SECONDS = 1.0  # a challenger that hangs is given up for these vectors
LOGGER = logging.getLogger("headrace.serve")


class Noted(NamedTuple):
    """What a request was answered, and what is needed to write it down; vectors that came whole have no events.

    `by` are those whose scores were the answer: the champion, the version before it, or a challenger with a share.
    """

    model: Model
    vectors_of: Vectors
    champion: Loaded
    challengers: tuple[Loaded, ...]
    events: Sequence[Event]
    vectors: Sequence[Vector]
    by: Sequence[Loaded]
    scores: Sequence[float]
    at_us: Sequence[int]
    degraded: Sequence[tuple[str, ...]]
    decided_at_us: int
    trace: bytes | None = None


class PredictionLog:
    """Takes so many predictions as may wait, and has them written by a thread; without a producer it keeps none."""

    def __init__(self, producer: Producer | None = None, most_waiting: int = MOST_WAITING) -> None:
        self._producer, self._most_waiting = producer, most_waiting
        self._waiting: deque[Noted] = deque()
        self._taken = self._written = 0  # each counted by one thread alone
        self._lost: Counter[str] = Counter()
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._write_until_stopped, name="predictions", daemon=True)
        self._requests, self._prefix = count(), f"http-{uuid.uuid4().hex[:12]}"

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_failure: object) -> None:
        self._stop.set()
        self._thread.join()

    def note(self, noted: Noted) -> None:
        """Have predictions written soon; those for which there is no room are lost, counted and told of."""
        if self._producer is None:
            return
        if self._taken - self._written + len(noted.vectors) > self._most_waiting:
            self._lose(noted, f"more than {self._most_waiting} wait for the broker")
            return
        self._taken += len(noted.vectors)
        self._waiting.append(noted)

    def lost(self) -> Counter[str]:
        """How many predictions of each model are in no log, and will not be."""
        undelivered = self._producer.undelivered if self._producer else Counter()
        return self._lost + Counter({name.removesuffix(".predictions"): n for name, n in undelivered.items()})

    def _lose(self, noted: Noted, why: str) -> None:
        if not self._lost[noted.model.name]:
            LOGGER.error("predictions of %s are lost: %s. headrace_predictions_lost counts them", noted.model.name, why)
        self._lost[noted.model.name] += len(noted.vectors)

    def _write_until_stopped(self) -> None:
        while not self._stop.wait(EVERY_SECONDS):
            self._write()
            if self._producer:
                self._producer.settle()
        self._write()
        try:
            if self._producer:
                self._producer.flush()
        except NotDelivered as problem:
            LOGGER.error("predictions are lost: %s", problem)

    def _write(self) -> None:
        while self._waiting:
            noted = self._waiting.popleft()
            try:
                self._send(noted)
            except Exception as failure:  # noqa: BLE001 - one that cannot be written must not keep back the others
                self._lose(noted, f"{type(failure).__name__}: {failure}")
            self._written += len(noted.vectors)

    def _send(self, noted: Noted) -> None:
        if self._producer is None:
            return
        ids = [event[noted.model.stream.id] for event in noted.events] or [None] * len(noted.vectors)
        named = [self._named(event_id) for event_id in ids]
        for place, scored in _scores(noted):
            prediction = _prediction(noted, place, named[place], scored)
            key, headers = str(prediction.event_id), passed_on(noted.trace)
            self._producer.send(noted.model.predictions, encode(prediction), key=key, headers=headers)

    def _named(self, event_id: object) -> object:
        return f"{self._prefix}-{next(self._requests)}" if event_id is None else event_id


class _Score(NamedTuple):
    """One score of a vector: whose it is, and whether it was the answer."""

    by: Loaded
    role: Role
    score: float
    answered: bool


def _scores(noted: Noted) -> Iterator[tuple[int, _Score]]:
    """What was answered of each vector, and what those say who did not answer, by the place of the vector."""
    for place, (by, score) in enumerate(zip(noted.by, noted.scores, strict=True)):
        yield place, _Score(by, "challenger" if by in noted.challengers else "champion", score, answered=True)
    split = [place for place, by in enumerate(noted.by) if by in noted.challengers]
    yield from _beside(noted, noted.champion, "champion", split)
    for challenger in noted.challengers:
        others = [place for place, by in enumerate(noted.by) if by is not challenger]
        yield from _beside(noted, challenger, "challenger", others)


def _beside(noted: Noted, loaded: Loaded, role: Role, places: Sequence[int]) -> Iterator[tuple[int, _Score]]:
    if not places:
        return
    rows = noted.vectors_of.rows(loaded.scorer, [noted.vectors[place] for place in places])
    scores: list[float] = loaded.scorer.score_rows(rows, WITHIN_SECONDS).tolist()
    for place, score in zip(places, scores, strict=True):
        yield place, _Score(loaded, role, score, answered=False)


def _prediction(noted: Noted, place: int, event_id: object, scored: _Score) -> Prediction:
    vector = noted.vectors[place]
    return Prediction(
        event_id=event_id,
        score=scored.score,
        decision=noted.model.decision(scored.score),
        model=noted.model.name,
        version=scored.by.version,
        role=scored.role,
        source="http",
        features=noted.vectors_of.named(vector),
        known=vector.known,
        degraded=noted.degraded[place] if scored.answered else (),
        event_time_us=noted.events[place][noted.model.stream.time] if noted.events else None,
        arrival_us=None,
        read_at_us=noted.at_us[place],
        decided_at_us=noted.decided_at_us,
        answered=scored.answered,
    )
