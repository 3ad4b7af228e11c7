"""The quality of models: their tiles are followed, and any window is computed on request."""

import threading
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, nullcontext

from headrace.declare.alerts.alert import WatchedValue
from headrace.declare.durations import UNITS_US
from headrace.declare.models.metrics import LONGEST_WINDOW_US, Metric
from headrace.declare.models.model import Model
from headrace.errors import HeadraceError
from headrace.kafka.consumers.tailing_consumer import TailingConsumer
from headrace.kafka.record import ConsumerRecord
from headrace.monitoring.quality.metric_values import model_metrics
from headrace.monitoring.quality.quality_table import CALIBRATION_WINDOW_US, QualityTable
from headrace.monitoring.quality.quality_tile import QualityTile
from headrace.telemetry.values.value_source import ValueReading

READ_SECONDS = 120.0
PRUNE_INTERVAL_US = UNITS_US["h"]


class QualityUnavailable(HeadraceError):
    """The quality topics could not be read to their end."""


class QualityValues:
    """The quality tables of models; one thread applies, others read."""

    def __init__(self, models: Sequence[Model]) -> None:
        self.tables = {model.name: QualityTable(model) for model in models if model.labels is not None}
        self._by_topic = {table.model.quality: table for table in self.tables.values()}
        self._lock, self._pruned_us = threading.Lock(), 0

    @property
    def topics(self) -> list[str]:
        return list(self._by_topic)

    @contextmanager
    def follow(self, broker: str) -> Iterator[None]:
        """Keep the tables up to date, where a model has one."""
        with (
            TailingConsumer(broker, self.topics, self.apply, is_latency_tolerant=True) if self.topics else nullcontext()
        ):
            yield

    def apply(self, records: Iterable[ConsumerRecord]) -> None:
        with self._lock:
            for record in records:
                if record.key is not None and record.value is not None:
                    self._by_topic[record.topic].apply_record(record.key, record.value)

    def refresh(self, now_us: int) -> None:
        """Drop tiles that no window reaches any more, now and then."""
        if now_us - self._pruned_us > PRUNE_INTERVAL_US:
            self._pruned_us = now_us
            with self._lock:
                for table in self.tables.values():
                    table.forget_before(table.now_us(now_us) - LONGEST_WINDOW_US - CALIBRATION_WINDOW_US)

    def read(self, watched: WatchedValue, now_us: int) -> ValueReading | None:
        """The value of a metric of a model, where it is known."""
        if not isinstance(watched, Metric) or watched.model not in self.tables:
            return None
        with self._lock:
            table = self.tables[watched.model]
            value, error = table.read_metric(watched, table.now_us(now_us))
        return None if value is None else ValueReading(value, f"{value:.4g} ± {error:.1g}" if error else f"{value:.4g}")

    def read_due_tile(self, model: str, now_us: int, window_us: int, version: str | None = None) -> QualityTile:
        """The quality over the latest predictions of a model that are due."""
        with self._lock:
            return self.tables[model].due_window(now_us, window_us, version)

    def read_all_metrics(
        self, model: Model, window: str, now_us: int, version: str | None = None
    ) -> dict[str, float | None]:
        """Every metric of a model, or of one of its versions, over a window such as "1h"."""
        table = self.tables[model.name]
        with self._lock:
            return {
                metric.text: table.read_metric(metric, table.now_us(now_us), version).value
                for metric in model_metrics(model, window)
            }


def read_quality(broker: str, model: Model) -> QualityValues:
    """Read the quality of a model to the current end of its topic."""
    quality = QualityValues([model])
    with TailingConsumer(broker, quality.topics, quality.apply) as follower:
        if not follower.wait_until_caught_up(READ_SECONDS):
            raise QualityUnavailable(
                f"{model.quality} was not read within {READ_SECONDS:g} s: {follower.error}. Try again."
            )
    return quality
