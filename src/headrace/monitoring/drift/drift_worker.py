"""Monitors the drift of an app's models, minute by minute: served values against the training data."""

import logging
import time
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from headrace.declare.app import App
from headrace.declare.models.model import Model
from headrace.declare.names import gold_table, query_name
from headrace.errors import HeadraceError
from headrace.kafka.producer.producer import Producer
from headrace.kafka.status.heartbeat import publish_progress
from headrace.kafka.status.reports.models import DriftProgress
from headrace.lake.failure_state import FailureState
from headrace.lake.lake import LakeConfig
from headrace.lake.maintenance import MaintenanceConfig, MaintenanceThread
from headrace.models.versions.version_store import VersionStore
from headrace.monitoring.drift.drift_layout import DriftLayout
from headrace.monitoring.drift.drift_window import WindowTiles
from headrace.monitoring.drift.drift_writer import RECORDS_PER_STEP, DriftWriter
from headrace.monitoring.drift.ranking import feature_importance
from headrace.monitoring.drift.realized_errors import ErrorTracker, has_tracked_errors
from headrace.monitoring.drift.window_report import (
    DriftWindowReport,
    create_policy,
    create_window_report,
    to_report_row,
)
from headrace.monitoring.evaluation_manager import EvaluationSetup
from headrace.monitoring.evaluation_worker import EvaluationWorker, EvaluationWorkerGroup

LOGGER = logging.getLogger("headrace.evaluate")
COMPARISON_INTERVAL_SECONDS = 60.0
MAX_RANKED = 20
MAX_COLUMNS = 100
EMPTY_REPORT = DriftWindowReport(0, {}, {}, ())


@dataclass(frozen=True)
class DriftEvaluationConfig:
    """The lake, the folder of model versions, the interval, and the size of a step."""

    lake: LakeConfig
    state: Path
    interval_seconds: float = COMPARISON_INTERVAL_SECONDS
    records_per_step: int = RECORDS_PER_STEP


def compared_models(app: App) -> list[Model]:
    """The models whose versions have a reference distribution."""
    return [model for model in app.models if model.train is not None]


def create_drift_setups(app: App, config: DriftEvaluationConfig) -> list[EvaluationSetup]:
    """The set-up of each trained model; a declared file, or an online model alone, has no card."""
    return [
        EvaluationSetup(
            query_name(model.name, "drift"),
            partial(_create_drift_workers, model, config),
            partial(drift_setup_failure_progress, model),
        )
        for model in compared_models(app)
    ]


def _create_drift_workers(model: Model, config: DriftEvaluationConfig) -> EvaluationWorkerGroup:
    worker = DriftWorker(model, config)
    return EvaluationWorkerGroup(
        [worker],
        MaintenanceThread(
            [worker.drift_writer.folder], MaintenanceConfig(config.lake.retention), Producer(config.lake.broker)
        ),
    )


def drift_setup_failure_progress(model: Model, failure: FailureState) -> DriftProgress:
    """The progress report of a model whose set-up failed: since when, and why."""
    return DriftProgress(
        compared=model.name,
        at_us=_now_us(),
        version=None,
        window_us=model.drift.window_us,
        rows=0,
        multiple=None,
        columns={},
        statistics={},
        ranked=[],
        fates={},
        lag=0,
        down_since_us=failure.down_since_us,
        error=failure.error,
    )


class DriftWorker(EvaluationWorker):
    """The drift monitor of one model; after a failure it restarts from its table."""

    def __init__(self, model: Model, config: DriftEvaluationConfig) -> None:
        super().__init__(query_name(model.name, "drift"), config.interval_seconds)
        self.model, self._interval_s = model, config.interval_seconds
        self.drift_writer = DriftWriter(
            config.lake.folder, model, config.state, config.lake.broker, config.records_per_step
        )
        outcomes_folder = config.lake.folder / gold_table(model.name, "outcomes")
        self._error_tracker = ErrorTracker(outcomes_folder, model) if has_tracked_errors(model) else None
        self._versions = VersionStore(config.state, model.name)
        self._producer = Producer(config.lake.broker)

    def _run(self) -> None:
        self.drift_writer.open(_now_us())
        last_report_s, pause_s = 0.0, 0.0
        while not self._stopped.wait(pause_s):
            lag = self.drift_writer.process_records(_now_us())
            pause_s = 0.0 if lag else self._interval_s
            if not lag or time.monotonic() > last_report_s + self._interval_s:
                last_report_s = time.monotonic()
                self._track_errors()
                self._record_success()
                publish_progress(self._producer, self.create_progress(_now_us(), lag))

    def _report_failure(self) -> None:
        publish_progress(self._producer, self.create_progress(_now_us()))

    def _track_errors(self) -> None:
        while self._error_tracker is not None and self._error_tracker.poll_commits() and not self._stopped.is_set():
            pass

    def create_progress(self, clock_us: int, lag: int = 0) -> DriftProgress:
        """The drift of the champion in the current window."""
        now_us = self.drift_writer.now_us(clock_us)
        self.drift_writer.forget_expired(now_us)
        version = self._champion_version()
        window = self.drift_writer.windows.get(version or "")
        rows = {} if window is None else window.tiles_at(now_us)
        window_report = (
            EMPTY_REPORT if window is None or version is None else self._create_report(window.layout, version, rows)
        )
        return DriftProgress(
            compared=self.model.name,
            at_us=clock_us,
            version=version,
            window_us=self.model.drift.window_us,
            rows=window_report.rows,
            multiple=window_report.multiple,
            columns=_greatest_multiples(window_report),
            statistics={
                name: dict(window_report.statistics.get(name, {})) for name in _greatest_multiples(window_report)
            },
            ranked=[to_report_row(drifted_column, rows) for drifted_column in window_report.drifted[:MAX_RANKED]],
            fates=dict(self.drift_writer.record_counts),
            lag=lag,
            error_share=None if self._error_tracker is None else self._error_tracker.error_share(version),
            error_changes={} if self._error_tracker is None else dict(self._error_tracker.change_counts),
            down_since_us=self._failure.down_since_us,
            error=self._failure.error,
        )

    def _create_report(self, layout: DriftLayout, version: str, rows: WindowTiles) -> DriftWindowReport:
        importance = feature_importance(self._versions.load_card(version))
        return create_window_report(layout, rows, create_policy(self.model.drift), importance)

    def _champion_version(self) -> str | None:
        """The version that is compared."""
        try:
            return self._versions.load_roles().champion
        except HeadraceError as problem:
            LOGGER.warning("%s", problem)
            return None


def _greatest_multiples(window_report: DriftWindowReport) -> dict[str, float]:
    """The greatest multiples of columns, up to a limit for storage."""
    names: Sequence[str] = sorted(window_report.multiples, key=lambda name: -window_report.multiples[name])[
        :MAX_COLUMNS
    ]
    return {name: window_report.multiples[name] for name in names}


def _now_us() -> int:
    return time.time_ns() // 1000
