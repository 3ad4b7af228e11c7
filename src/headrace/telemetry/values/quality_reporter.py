"""Reports the quality of each model once a minute: the loss relative to its card, and the label coverage."""

import logging
from collections.abc import Callable, Sequence
from pathlib import Path

from headrace.declare.alerts.alert import WatchedValue
from headrace.declare.durations import UNITS_US
from headrace.declare.models.model import Model
from headrace.errors import HeadraceError
from headrace.kafka.status.reports.models import QualityProgress
from headrace.models.versions.version_store import VersionStore
from headrace.monitoring.quality.quality_loss import label_coverage, quality_loss
from headrace.telemetry.values.quality_values import QualityValues
from headrace.telemetry.values.value_source import ValueReading

LOGGER = logging.getLogger("headrace.alerts")
REPORT_INTERVAL_US = UNITS_US["m"]
WINDOW_US = UNITS_US["d"]


class QualityReporter:
    """Reports each model with labels; alerts read it from /metrics."""

    def __init__(
        self, models: Sequence[Model], quality: QualityValues, state: Path, report: Callable[[QualityProgress], None]
    ) -> None:
        self._quality, self._report = quality, report
        self._versions = {model.name: VersionStore(state, model.name) for model in models if model.labels is not None}
        self._reported_us = 0

    def refresh(self, now_us: int) -> None:
        """Report, where a minute has passed."""
        if now_us - self._reported_us >= REPORT_INTERVAL_US:
            self._reported_us = now_us
            for name in self._versions:
                self._report(self.progress(name, now_us))

    def read(self, watched: WatchedValue, now_us: int) -> ValueReading | None:  # noqa: ARG002  # a protocol's
        """Nothing: alerts read it from the server."""
        return None

    def progress(self, model: str, now_us: int) -> QualityProgress:
        """The progress of a model's champion; a declared model file has no card to compare with."""
        table = self._quality.tables[model]
        if table.model.file is not None:
            due_tile = self._quality.read_due_tile(model, now_us, WINDOW_US)
            return QualityProgress(model, now_us, None, label_coverage(due_tile))
        try:
            version = self._versions[model].load_roles().champion
            due_tile = self._quality.read_due_tile(model, now_us, WINDOW_US, version)
            lost_share = None if version is None else quality_loss(due_tile, self._versions[model].load_card(version))
        except HeadraceError as error:
            LOGGER.warning("Could not compute the quality of %s: %s", model, error)
            return QualityProgress(model, now_us, None, None)
        return QualityProgress(model, now_us, lost_share, label_coverage(due_tile))
