"""The quality of the model from its quality topic: realised by labels, and estimated from scores before they arrive."""

import time
from contextlib import AbstractContextManager
from dataclasses import dataclass

from app import fraud
from readings import Scrape

from headrace.declare.models.metrics import Metric
from headrace.telemetry.values.quality_values import QualityValues

WINDOW = "1h"
AUC, ESTIMATED_AUC = fraud.auc(WINDOW), fraud.auc(WINDOW, estimated=True)
RECALL, ESTIMATED_RECALL = (fraud.recall(WINDOW, at="review", estimated=estimated) for estimated in (False, True))
PRECISION, ESTIMATED_PRECISION = (
    fraud.precision(WINDOW, at="review", estimated=estimated) for estimated in (False, True)
)
COVERAGE = fraud.coverage(WINDOW)
STATES = ("matched", "pending", "defaulted", "expired", "orphan")


@dataclass(frozen=True)
class Judged:
    """Counts of outcomes, and the metrics, realised and estimated; None while a metric is unknown."""

    told: int
    states: dict[str, int]
    coverage: float | None = None
    auc: tuple[float | None, float | None] = (None, None)
    recall: tuple[float | None, float | None] = (None, None)
    precision: tuple[float | None, float | None] = (None, None)

    @property
    def named(self) -> str:
        """The count of each state as text."""
        return ", ".join(f"{state} {count:,}" for state, count in self.states.items())


class Verdicts:
    """Reads the published quality of the model."""

    def __init__(self, broker: str) -> None:
        self._quality, self._broker = QualityValues([fraud]), broker

    def followed(self) -> AbstractContextManager[None]:
        return self._quality.follow(self._broker)

    def judged(self, scrape: Scrape, told: int) -> Judged:
        """The quality now; `told` is the number of labels sent so far."""
        counted = scrape.by("headrace_outcomes", "state", model=fraud.name)
        return Judged(
            told=told,
            states={state: int(counted[state]) for state in STATES if counted.get(state)},
            coverage=self._read(COVERAGE),
            auc=(self._read(AUC), self._read(ESTIMATED_AUC)),
            recall=(self._read(RECALL), self._read(ESTIMATED_RECALL)),
            precision=(self._read(PRECISION), self._read(ESTIMATED_PRECISION)),
        )

    def _read(self, metric: Metric) -> float | None:
        reading = self._quality.read(metric, time.time_ns() // 1000)
        return None if reading is None else reading.value
