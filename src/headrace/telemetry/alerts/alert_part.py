"""The alerting part of an app: evaluates every alert every few seconds until it is stopped."""

import logging
import threading
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

from headrace.declare.app import App
from headrace.kafka.client.startup_retries import retry_until_stopped
from headrace.kafka.consumers.tailing_consumer import TailingConsumer
from headrace.kafka.producer.producer import Producer
from headrace.kafka.status.heartbeat import ensure_progress_topic, publish_progress
from headrace.kafka.status.reports.alerting import AlertingProgress
from headrace.server.auth.internal_client import InternalClient
from headrace.telemetry.alerts.alert_engine import AlertEngine
from headrace.telemetry.alerts.alerts_topic import TOPIC, AlertStateTable, read_alert_states, write_alert_state
from headrace.telemetry.alerts.default_alerts import app_alerts
from headrace.telemetry.alerts.notifications import Notification
from headrace.telemetry.otlp.endpoint import OtlpEndpoint
from headrace.telemetry.otlp.exporter import MetricsSignal, OtlpExporter, TracesSignal
from headrace.telemetry.values.metrics_scraper import ServerValues
from headrace.telemetry.values.value_source import CombinedValues, ValueSource
from headrace.telemetry.webhooks.allowed_addresses import Network
from headrace.telemetry.webhooks.notifier import WebhookNotifier

EVALUATION_SECONDS = 5.0
PUSH_SECONDS = 10.0
LOGGER = logging.getLogger("headrace.alerts")


@dataclass(frozen=True)
class AlertMonitorConfig:
    """What is watched, the broker, the path the app was started from, the webhook, and where OTLP is pushed."""

    client: InternalClient
    broker: str
    app_path: str
    webhook: str | None = field(default=None, repr=False)
    webhook_allow: tuple[Network, ...] = ()
    webhook_ca: Path | None = None
    interval_seconds: float = EVALUATION_SECONDS
    otlp: OtlpEndpoint | None = None
    otlp_interval_seconds: float = PUSH_SECONDS


def run_alert_monitor(
    app: App, config: AlertMonitorConfig, stop: threading.Event, extra_sources: Sequence[ValueSource] = ()
) -> None:
    """Evaluate the alerts of an app until `stop` is set, by reported progress and by its server's metrics."""
    alerts = app_alerts(app, config.app_path)
    webhook = WebhookNotifier(config.webhook, config.webhook_allow, config.webhook_ca) if config.webhook else None
    alert_states = retry_until_stopped(partial(_read_alert_states, config.broker), stop, "Alerts")
    if alert_states is None:
        return
    saved_states = {name: alert_record.state for name, alert_record in alert_states.alert_records.items()}
    with ExitStack() as exit_stack:
        exit_stack.enter_context(TailingConsumer(config.broker, [TOPIC], alert_states.apply, is_latency_tolerant=True))
        producer = exit_stack.enter_context(Producer(config.broker))
        if webhook is not None:
            exit_stack.enter_context(webhook)
        exporter = (
            exit_stack.enter_context(_create_exporter(app, config.otlp, config)) if config.otlp is not None else None
        )
        engine = AlertEngine(alerts, saved_states, lambda *word: write_alert_state(producer, *word))
        monitor = AlertMonitor(
            engine, CombinedValues([*extra_sources, ServerValues(config.client, alerts)]), alert_states, webhook
        )
        while not stop.wait(config.interval_seconds):
            monitor.evaluate(time.time_ns() // 1000)
            publish_progress(producer, monitor.progress(app.name, {} if exporter is None else exporter.outcomes()))


def _read_alert_states(broker: str) -> AlertStateTable:
    ensure_progress_topic(broker)
    return read_alert_states(broker)


def _create_exporter(app: App, endpoint: OtlpEndpoint, config: AlertMonitorConfig) -> OtlpExporter:
    return OtlpExporter(
        endpoint, [MetricsSignal(app, config.client), TracesSignal(app, config.broker)], config.otlp_interval_seconds
    )


class AlertMonitor:
    """One evaluation after the other: changes go to the log and the webhook."""

    def __init__(
        self, engine: AlertEngine, source: ValueSource, alert_states: AlertStateTable, webhook: WebhookNotifier | None
    ) -> None:
        self.engine, self._source, self._alert_states, self._webhook = engine, source, alert_states, webhook
        self._log_outcomes: Counter[str] = Counter()

    def evaluate(self, now_us: int) -> None:
        if self._webhook is not None:
            self.engine.mark_delivered(self._webhook.take_finished())
        notifications = self.engine.evaluate(self._source, self._alert_states.silences, now_us)
        for notification in notifications:
            self._notify(notification)

    def progress(self, app: str, pushes: dict[str, dict[str, int]] | None = None) -> AlertingProgress:
        """The counts so far."""
        outcomes_by_channel: Mapping[str, Counter[str]] = {"log": self._log_outcomes}
        if self._webhook is not None:
            outcomes_by_channel = {**outcomes_by_channel, "webhook": self._webhook.outcomes.copy()}
        notifications = {channel: dict(outcomes) for channel, outcomes in outcomes_by_channel.items()}
        return AlertingProgress(app, time.time_ns() // 1000, self.engine.firing_count, notifications, pushes or {})

    def _notify(self, notification: Notification) -> None:
        if self._webhook is not None and not self._webhook.enqueue(notification):
            self.engine.requeue(notification)
            return
        for change in notification.changes:
            LOGGER.warning("%s", change.text)
        self._log_outcomes["delivered"] += 1
        if self._webhook is None:
            self.engine.mark_delivered([notification])
