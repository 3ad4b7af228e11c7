"""Outages: read from the progress topic, and from the supervisor's file without a broker."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from headrace.declare.alerts.alert import WatchedValue
from headrace.declare.alerts.alert_values import Series
from headrace.declare.app import App
from headrace.kafka.consumers.tailing_consumer import TailingConsumer
from headrace.kafka.status.app_status import AppStatus, build_app_status
from headrace.kafka.status.heartbeat import PROGRESS_TOPIC
from headrace.kafka.status.progress_table import ProgressTable
from headrace.kafka.status.status_file import read_status
from headrace.telemetry.values.value_source import ValueReading

METRIC_NAME = "headrace_down"


class OutageValues:
    """The number of parts, queries and tables that are down, with the start, reason and effect of each outage."""

    def __init__(self, app: App, state: Path | None = None) -> None:
        self.progress = ProgressTable()
        self._app, self._state = app, state
        self._status = AppStatus()

    @contextmanager
    def follow(self, broker: str) -> Iterator[None]:
        """Keep the outages up to date."""
        with TailingConsumer(broker, [PROGRESS_TOPIC], self.progress.apply, is_latency_tolerant=True):
            yield

    def refresh(self, now_us: int) -> None:
        """Apply the latest reports."""
        status_file = None if self._state is None else read_status(self._state)
        supervisor_parts = () if status_file is None else status_file.parts
        self._status = build_app_status(self._app, self.progress, now_us, more_parts=supervisor_parts)

    def read(self, watched: WatchedValue, now_us: int) -> ValueReading | None:  # noqa: ARG002  # a protocol's
        """How many of a kind are down, with a sentence for each outage."""
        if not isinstance(watched, Series) or watched.name != METRIC_NAME:
            return None
        kind = dict(watched.labels)["kind"]
        sentences = [outage.sentence.removesuffix(".") for outage in self._status.outages if outage.kind == kind]
        return ValueReading(float(len(sentences)), "; ".join(sentences) or f"no {kind} is down")
