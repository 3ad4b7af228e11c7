"""The quality of models as those who watch know it: their tiles followed, any window read when it is asked for."""

import threading
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, nullcontext

from headrace.declare.alert import Watched
from headrace.declare.durations import UNITS_US
from headrace.declare.metrics import LONGEST_WINDOW_US, Metric
from headrace.declare.model import Model
from headrace.errors import HeadraceError
from headrace.evaluate.quality.measure import metrics_of
from headrace.evaluate.quality.table import CALIBRATED_BY_US, QualityTable
from headrace.evaluate.quality.tile import QualityTile
from headrace.log.follow import Follower
from headrace.log.records import Record
from headrace.watch.values import Reading

READ_SECONDS = 120.0
FORGET_EVERY_US = UNITS_US["h"]


class NotRead(HeadraceError):
    """Quality that could not be read to its end."""


class Quality:
    """The tables of models by their topics; one thread applies, others read."""

    def __init__(self, models: Sequence[Model]) -> None:
        self.tables = {model.name: QualityTable(model) for model in models if model.labels is not None}
        self._by_topic = {table.model.quality: table for table in self.tables.values()}
        self._lock, self._forgot_us = threading.Lock(), 0

    @property
    def topics(self) -> list[str]:
        return list(self._by_topic)

    @contextmanager
    def followed(self, broker: str) -> Iterator[None]:
        """Kept up to date, where there is anything to follow."""
        with Follower(broker, self.topics, self.apply, patient=True) if self.topics else nullcontext():
            yield

    def apply(self, records: Iterable[Record]) -> None:
        with self._lock:
            for record in records:
                if record.key is not None and record.value is not None:
                    self._by_topic[record.topic].apply(record.key, record.value)

    def look(self, now_us: int) -> None:
        """Let go of what no window can reach any more, now and then."""
        if now_us - self._forgot_us > FORGET_EVERY_US:
            self._forgot_us = now_us
            with self._lock:
                for table in self.tables.values():
                    table.forget(table.now_us(now_us) - LONGEST_WINDOW_US - CALIBRATED_BY_US)

    def read(self, watched: Watched, now_us: int) -> Reading | None:
        """The value of a metric of a model, where it can be told."""
        if not isinstance(watched, Metric) or watched.model not in self.tables:
            return None
        with self._lock:
            table = self.tables[watched.model]
            value, error = table.read(watched, table.now_us(now_us))
        return None if value is None else Reading(value, f"{value:.4g} ± {error:.1g}" if error else f"{value:.4g}")

    def due(self, model: str, now_us: int, window_us: int, version: str | None = None) -> QualityTile:
        """The latest predictions of a model that are due."""
        with self._lock:
            return self.tables[model].due(now_us, window_us, version)

    def every(self, model: Model, window: str, now_us: int, version: str | None = None) -> dict[str, float | None]:
        """Every metric of a model, or of one of its versions, over a window, as it is written."""
        table = self.tables[model.name]
        with self._lock:
            return {one.text: table.read(one, table.now_us(now_us), version).value for one in metrics_of(model, window)}


def read_quality(broker: str, model: Model) -> Quality:
    """All that is known of a model's quality now."""
    quality = Quality([model])
    with Follower(broker, quality.topics, quality.apply) as follower:
        if not follower.wait_until_caught_up(READ_SECONDS):
            raise NotRead(f"{model.quality} was not read within {READ_SECONDS:g} s: {follower.trouble}. Try again.")
    return quality
