"""Counts the model's decisions from its predictions topic."""

import threading
import time
from bisect import bisect_left
from collections import Counter
from dataclasses import dataclass, field
from typing import Self

from payments import is_fraud
from readings import Delay, delay_of

from headrace.declare.models.model import Model
from headrace.kafka.consumers.tailing_consumer import TailingConsumer
from headrace.kafka.record import ConsumerRecord
from headrace.models.inference.prediction import Prediction, decode_prediction

PASSED = "pass"


@dataclass(frozen=True)
class Decided:
    """Counts of decisions, their latency, and the number of frauds that were reviewed or blocked."""

    by_decision: dict[str, int]
    latency: Delay | None
    degraded: int
    frauds: int
    caught: int
    count: int = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "count", sum(self.by_decision.values()))

    @property
    def named(self) -> str:
        """The count of each decision as text."""
        return ", ".join(f"{name} {times:,}" for name, times in self.by_decision.items())


class Decisions:
    """The champion's predictions of one run; of several predictions for one payment, the first in the log counts."""

    def __init__(self, broker: str, model: Model, seed: int) -> None:
        self._seed, self._began_us = seed, time.time_ns() // 1000
        self._names = [PASSED, *(name for name, _ in model.thresholds)]
        self._lock = threading.Lock()
        self._by_decision: Counter[str] = Counter()
        self._frauds = self._caught = 0
        self._read_at: list[float] = []  # when each prediction was read; the next two: its latency, is it degraded
        self._latencies: list[float] = []
        self._degraded: list[bool] = []
        self._seen: set[str] = set()
        self._follower = TailingConsumer(broker, [model.predictions], self._take)

    def __enter__(self) -> Self:
        self._follower.start()
        return self

    def __exit__(self, *_failure: object) -> None:
        self._follower.stop()

    def decided(self, since: float = 0.0) -> Decided:
        """All decisions so far; latency and degraded count are of those read since `since`."""
        self._follower.raise_failure()
        with self._lock:
            first = bisect_left(self._read_at, since)
            latency, degraded = delay_of(self._latencies[first:]), sum(self._degraded[first:])
            by_decision = {name: self._by_decision[name] for name in self._names}
            return Decided(by_decision, latency, degraded, self._frauds, self._caught)

    def _take(self, records: list[ConsumerRecord]) -> None:
        with self._lock:
            for record in records:
                prediction = decode_prediction(record.value or b"")
                if self._is_new(prediction):
                    self._count(prediction)

    def _is_new(self, prediction: Prediction) -> bool:
        known = prediction.event_id in self._seen
        return not known and prediction.role == "champion" and prediction.decided_at_us >= self._began_us

    def _count(self, prediction: Prediction) -> None:
        self._seen.add(prediction.event_id)
        self._by_decision[prediction.decision or PASSED] += 1
        self._read_at.append(time.monotonic())
        self._latencies.append((prediction.latency_ms or 0.0) / 1000)
        self._degraded.append(bool(prediction.degraded))
        if self._was_fraud(prediction.event_id):
            self._frauds += 1
            self._caught += prediction.decision is not None

    def _was_fraud(self, payment_id: str) -> bool:
        run, _, number = payment_id.partition("-")
        return run == f"p{self._seed}" and is_fraud(self._seed, int(number))
