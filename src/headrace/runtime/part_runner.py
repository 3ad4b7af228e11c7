"""Runs one part of an app alone, against a given broker, store and Spark."""

import logging
import os
import signal
import threading
from collections.abc import Callable, Mapping
from functools import partial
from typing import TYPE_CHECKING

from headrace.declare.app import App
from headrace.declare.operations.derived_stream import StreamOperation
from headrace.declare.streams.change_capture import Changes
from headrace.embedded_servers.jars import jar_paths
from headrace.embedded_servers.java import find_java
from headrace.runtime.server_access import internal_client, require_secure_server
from headrace.runtime.settings import BadSetting, Settings

if TYPE_CHECKING:
    from headrace.connectors.outbox.outbox_table import OutboxTable
    from headrace.connectors.sinks.writer import SinkConfig
    from headrace.lake.lake import LakeConfig
    from headrace.spark.execution.app_queries import StreamingConfig
    from headrace.spark.execution.query_manager import SparkOptions
    from headrace.telemetry.otlp.endpoint import OtlpEndpoint

LOGGER = logging.getLogger("headrace.cli")
PartRunner = Callable[[App, Settings, threading.Event], None]
STOP_SECONDS = 10.0


def stop_on_signals() -> threading.Event:
    """An event that Ctrl-C and SIGTERM set."""
    stop = threading.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda *_: stop.set())
    return stop


def configure_logging() -> None:
    """Log to stderr, without the messages of py4j."""
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(name)s: %(message)s")
    # An exception in Python code that Spark calls propagates to Spark: its query fails and is reported by name. An
    # exception of a query that is being stopped does not matter. py4j would log a traceback of both.
    logging.getLogger("py4j").setLevel(logging.CRITICAL)


def broker_address(settings: Settings) -> str:
    """The address of the given broker, or of the embedded one."""
    return settings.broker_address


def restore_requested_savepoint(app: App, settings: Settings) -> str | None:
    """Restore the requested savepoint; returns the name under which the previous state is kept.

    An app that cannot continue from the savepoint is rejected before anything is moved.
    """
    if settings.savepoint is None:
        return None
    from headrace.spark.checkpoints.savepoints import restore_savepoint, savepoint_folder
    from headrace.spark.checkpoints.state_plan import plan_state

    plan_state(app, savepoint_folder(settings.state, settings.savepoint), settings.rebuild, since_us=settings.since_us)
    return restore_savepoint(settings.state, settings.savepoint).name


def run_stream(app: App, settings: Settings, stop: threading.Event) -> None:
    # Imported here: only this part pays for Spark.
    from headrace.spark.execution.query_manager import run_queries

    restore_requested_savepoint(app, settings)
    run_queries(app, query_config(settings), spark_options(settings), stop)


def run_operate(app: App, settings: Settings, stop: threading.Event) -> None:
    """Run the stream operations with Python state, at a lower priority than processes that answer in milliseconds."""
    from headrace.embedded_servers.process_priority import lower_priority
    from headrace.spark.execution.query_manager import run_operations

    if not any(isinstance(derivation, StreamOperation) for derivation in app.derivations):
        stop.wait()
        return
    on_started = partial(lower_priority, os.getpid())
    run_operations(app, query_config(settings), spark_options(settings), stop, on_started)


def query_config(settings: Settings) -> "StreamingConfig":
    """The configuration of the app's queries."""
    from headrace.spark.execution.app_queries import StreamingConfig
    from headrace.spark.execution.lanes import Lane

    lane, broker = Lane(settings.lane), broker_address(settings)
    return StreamingConfig(
        broker, settings.state, settings.rebuild, lane, settings.checkpoint_seconds, settings.since_us
    )


def spark_options(settings: Settings) -> "SparkOptions":
    """Spark's master, jars and Java home."""
    from headrace.spark.execution.query_manager import SparkOptions

    return SparkOptions(settings.spark, jar_paths("spark"), find_java().home)


def run_lake(app: App, settings: Settings, stop: threading.Event) -> None:
    from headrace.kafka.client.startup_retries import retry_until_stopped
    from headrace.lake.ingestion.lake_writer import LakeWriter
    from headrace.runtime.batch_session import batch_session
    from headrace.runtime.parts.lake_part import LakePriorityController, build_lake
    from headrace.spark.session.liveness import wait_while_alive
    from headrace.spark.session.session import java_process_id

    lake = build_lake(app, settings)
    if lake is None:
        stop.wait()
        return
    if not retry_until_stopped(partial(_prepare_lake, lake), stop, "Lake"):
        return
    priority = LakePriorityController(stop)
    with batch_session(settings.spark) as spark:
        priority.spark_pid = java_process_id(spark)
        writer = LakeWriter(spark, lake, lake.tables, priority)
        writer.start()
        wait_while_alive(spark, stop)
        writer.stop()
        writer.join(timeout=STOP_SECONDS)


def _prepare_lake(lake: "LakeConfig") -> bool:
    from headrace.lake.lake import prepare_tables

    for problem in prepare_tables(lake):
        LOGGER.error("%s", problem)
    return True


def run_evaluate(app: App, settings: Settings, stop: threading.Event) -> None:
    """Join labels, and compute quality and drift, if there is a lake to store them."""
    from headrace.runtime.parts.lake_part import build_lake, missing_outcome_warnings

    lake = build_lake(app, settings)
    if lake is None or not has_evaluations(app):
        for warning in missing_outcome_warnings(app, settings):
            LOGGER.warning(warning)
        stop.wait()
        return
    from headrace.runtime.parts.evaluate_part import evaluate_until

    evaluate_until(app, lake, settings, stop)


def has_evaluations(app: App) -> bool:
    """Whether any model has labels to join, or training data to compare served values with."""
    return any(model.labels is not None or model.train is not None for model in app.models)


def run_serve(app_path: str, app: App, settings: Settings, stop: threading.Event) -> None:
    from headrace.runtime.admin_routes import admin_routes
    from headrace.runtime.parts.server_workers import current_worker, run_server_workers
    from headrace.server.server import ServerConfig, serve

    require_secure_server(settings)
    if settings.workers > 1 and settings.worker is None:
        run_server_workers(settings, stop)
        return
    address = (settings.host, settings.port)
    config = ServerConfig(
        broker_address(settings),
        settings.store,
        address,
        settings.state,
        current_worker(settings),
        settings.lake,
        settings.access,
    )
    serve(app, config, stop, admin_routes(app_path, app, settings))


def run_apply(app: App, settings: Settings, stop: threading.Event) -> None:
    from headrace.online_store.changelog_applier import apply_until

    apply_until(app, broker_address(settings), settings.store, stop)


def run_check(app: App, settings: Settings, stop: threading.Event) -> None:
    from headrace.lake.consistency.continuous_check import check_until_stopped

    check_until_stopped(app, broker_address(settings), stop)


def run_score(app: App, settings: Settings, stop: threading.Event) -> None:
    from headrace.models.stream_scoring.scoring_part import ScoringConfig, score_until

    score_until(app, ScoringConfig(broker_address(settings), settings.store, settings.state), stop)


def run_connect(app: App, settings: Settings, stop: threading.Event) -> None:
    from headrace.connectors.cdc.capture_part import run_capture

    if has_captured_tables(app):
        run_capture(app, broker_address(settings), settings.state, stop)
    else:
        stop.wait()


def has_captured_tables(app: App) -> bool:
    """Whether the app has a table whose changes Headrace captures itself."""
    return any(isinstance(stream, Changes) and stream.source is not None for stream in app.streams)


def require_capturable(app: App) -> None:
    """Reject tables that are not set up for change capture, before anything starts."""
    if has_captured_tables(app):
        from headrace.connectors.cdc import capture_part as capturing

        capturing.require_capturable(app)


def run_sink(app: App, settings: Settings, stop: threading.Event) -> None:
    from headrace.connectors.sinks.sink_part import run_sinks

    run_sinks(app, sink_config(settings), stop)


def run_bridge(app: App, settings: Settings, stop: threading.Event) -> None:
    from headrace.connectors.sources.source_part import run_sources

    run_sources(app, broker_address(settings), stop)


def run_outbox(app: App, settings: Settings, stop: threading.Event) -> None:
    from headrace.connectors.outbox.outbox_part import run_relays

    run_relays(app, broker_address(settings), stop)


def sink_config(settings: Settings) -> "SinkConfig":
    """The broker that sinks read from, and the networks that they may reach."""
    from headrace.connectors.sinks.writer import SinkConfig
    from headrace.telemetry.webhooks.allowed_addresses import parse_networks

    return SinkConfig(broker_address(settings), parse_networks(settings.webhook_allow), settings.webhook_ca)


def run_watch(app_path: str, app: App, settings: Settings, stop: threading.Event) -> None:
    """Monitor an app's alerts; `app_path` is used in the commands that alerts suggest."""
    from headrace.kafka.producer.producer import Producer
    from headrace.kafka.status.heartbeat import publish_progress
    from headrace.telemetry.alerts.alert_part import AlertMonitorConfig, run_alert_monitor
    from headrace.telemetry.values.outage_values import OutageValues
    from headrace.telemetry.values.quality_reporter import QualityReporter
    from headrace.telemetry.values.quality_values import QualityValues
    from headrace.telemetry.webhooks.allowed_addresses import parse_networks

    config = AlertMonitorConfig(
        internal_client(settings),
        broker_address(settings),
        app_path,
        settings.webhook,
        parse_networks(settings.webhook_allow),
        settings.webhook_ca,
        settings.alerts_every_s,
        otlp_endpoint(settings),
        settings.otlp_every_s,
    )
    quality, outages, broker = QualityValues(app.models), OutageValues(app, settings.state), broker_address(settings)
    with quality.follow(broker), outages.follow(broker), Producer(broker) as producer:
        reporter = QualityReporter(app.models, quality, settings.state, partial(publish_progress, producer))
        run_alert_monitor(app, config, stop, extra_sources=[outages, quality, reporter])


def run_retrain(app_path: str, app: App, settings: Settings, stop: threading.Event) -> None:
    """Retrain models on schedule, or when an alert that they wait for fires."""
    from headrace.kafka.client.startup_retries import retry_until_stopped
    from headrace.kafka.consumers.tailing_consumer import TailingConsumer
    from headrace.runtime.parts.retraining_part import run_retraining
    from headrace.telemetry.alerts.alerts_topic import TOPIC, read_alert_states

    require_known_alerts(app_path, app)
    alert_states = retry_until_stopped(partial(read_alert_states, broker_address(settings)), stop, "Retraining")
    if alert_states is None:
        return
    with TailingConsumer(broker_address(settings), [TOPIC], alert_states.apply, is_latency_tolerant=True):
        run_retraining(app_path, app, settings, alert_states.firing_since, stop)


def require_online_learners(app: App) -> None:
    """Reject models that cannot learn online, before anything starts."""
    from headrace.models.online_learning.learner import create_learner

    for model in app.models:
        if model.learn is not None:
            create_learner(model)


def require_answerable_queries(app: App) -> None:
    """Reject saved queries that are not valid, before anything starts."""
    from headrace.runtime.parts.lake_part import lake_tables
    from headrace.sql import saved_query_check

    if app.queries:
        saved_query_check.require_valid_queries(app, lake_tables(app))


def otlp_endpoint(settings: Settings) -> "OtlpEndpoint | None":
    """The OTLP endpoint for metrics and spans, if there is one."""
    from headrace.telemetry.otlp.endpoint import parse_endpoint

    return parse_endpoint(settings.otlp, os.environ) if settings.otlp else None


def require_sink_drivers(app: App, settings: Settings) -> None:
    """Reject a sink whose driver is missing, before anything starts."""
    from headrace.connectors.sinks.sink_part import create_sink_writer

    for sink in app.sinks:
        create_sink_writer(sink, sink_config(settings)).close()


def require_bridge_drivers(app: App) -> None:
    """Reject a source whose driver is missing, before anything starts."""
    from headrace.connectors.sources.source_part import create_source_readers, external_streams

    for stream in external_streams(app):
        create_source_readers(stream)


def require_outbox_driver(app: App) -> None:
    """Reject an outbox whose driver is missing, before anything starts."""
    if app.outboxes:
        outbox_table(app.outboxes[0].url, app.outboxes[0].table)


def outbox_table(url: str, name: str) -> "OutboxTable":
    """The table of an outbox."""
    try:
        from headrace.connectors.outbox.outbox_table import OutboxTable
    except ModuleNotFoundError as error:
        raise BadSetting(f"The outbox needs {error.name}. Install it: pip install 'headrace[postgres]'.") from error
    return OutboxTable(url, name)


def require_valid_endpoints(settings: Settings) -> None:
    """Reject an invalid webhook or OTLP endpoint, before anything starts."""
    from headrace.telemetry.webhooks.allowed_addresses import parse_networks, require_https

    parse_networks(settings.webhook_allow)
    if settings.webhook:
        require_https(settings.webhook)
    otlp_endpoint(settings)


def require_known_alerts(app_path: str, app: App) -> None:
    """Reject a model that waits for an unknown alert: a misspelled one would never fire."""
    from headrace.telemetry.alerts.default_alerts import app_alerts

    alert_names = [alert.name for alert in app_alerts(app, app_path)]
    for model in app.models:
        for name in () if model.retrain is None else model.retrain.when:
            if name not in alert_names:
                raise BadSetting(
                    f"Model {model.name!r}: retrain= waits for the alert {name!r}, and there is none. "
                    f"There is {', '.join(map(repr, alert_names))}."
                )


PART_RUNNERS: Mapping[str, PartRunner] = {
    "stream": run_stream,
    "lake": run_lake,
    "evaluate": run_evaluate,
    "apply": run_apply,
    "check": run_check,
    "score": run_score,
    "sink": run_sink,
    "operate": run_operate,
    "connect": run_connect,
    "bridge": run_bridge,
    "outbox": run_outbox,
}
# What these start or name has to name the app as it was.
NAMED_PART_RUNNERS = {"serve": run_serve, "watch": run_watch, "retrain": run_retrain}
