"""The serving part of an app: follows its tables, monitors its queries, and serves its features over HTTP."""

import asyncio
import socket
import ssl
import threading
import time
from collections.abc import Coroutine, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import uvloop

from headrace.declare.app import App
from headrace.declare.features.view import View
from headrace.declare.models.model import Model
from headrace.kafka.consumers.consumer_lag import LagSnapshot
from headrace.kafka.consumers.tailing_consumer import TailingConsumer
from headrace.kafka.producer.producer import Producer
from headrace.kafka.status.app_status import AppStatus, build_app_status
from headrace.kafka.status.heartbeat import PROGRESS_TOPIC
from headrace.kafka.status.progress_table import ProgressTable
from headrace.kafka.status.status_file import read_status
from headrace.online_store.factory import create_store_reader
from headrace.online_store.memory.memory_store_reader import OnlineStoreReader, tune_for_latency
from headrace.server.auth.access_config import DEFAULT_ACCESS, AccessConfig
from headrace.server.auth.login import (
    LOGIN_PATH,
    LOGOUT_PATH,
    SESSION_PATH,
    LoginHandler,
    LogoutHandler,
    SessionStatusHandler,
)
from headrace.server.auth.request_guard import GuardConfig, RequestGuard
from headrace.server.auth.scopes import Scope
from headrace.server.dashboard.dashboard_route import StaticHandler, dashboard_routes
from headrace.server.dashboard.panels import PanelsHandler
from headrace.server.features.backfill_readiness import BackfillReadiness, require_backfill
from headrace.server.features.feature_routes import FeaturesHandler
from headrace.server.features.served_log import ServedLogWriter
from headrace.server.health import HealthHandler
from headrace.server.http import openapi
from headrace.server.http.listener import HttpServer, bind, is_reachable
from headrace.server.http.responses import JSON_CONTENT_TYPE, encode_json
from headrace.server.http.routing import Handler, Request, Route, Router, get_route, post_route
from headrace.server.http.tls import server_tls_context, watch_certificate
from headrace.server.inference.mlflow_invocations import InvocationsHandler, handle_ping, handle_version
from headrace.server.inference.model_resolver import ModelServingContext
from headrace.server.inference.open_inference import InferenceHandler, handle_server_metadata
from headrace.server.inference.predict_route import PredictHandler
from headrace.server.inference.prediction_log import PredictionLog
from headrace.server.inference.predictor import Predictor
from headrace.server.metrics.hot_keys import HotKeysHandler
from headrace.server.metrics.lag_monitor import LagMonitor, LogConsumers
from headrace.server.metrics.ledgers import StreamLedgers
from headrace.server.metrics.live_metrics import LiveMetricsHandler, encode_snapshot
from headrace.server.metrics.metric_history import HistoryHandler, MetricHistory, record_history
from headrace.server.metrics.metrics_route import MetricsHandler, MetricSources
from headrace.server.metrics.request_stats import RequestStats
from headrace.server.metrics.server_counts import ServerCounts, table_counts
from headrace.server.metrics.watermark_diagnosis import diagnose_watermarks
from headrace.server.metrics.worker_stats import ReadinessProblems, ServerWorker, WorkerStats
from headrace.server.sql_route import LiveTableReader, SqlExecutor, SqlHandler

# Predictions are sent in batches with a short time limit: a stopping server does not wait for a broker that is down.
LINGER_MS, DELIVERY_SECONDS = 5.0, 10.0


@dataclass(frozen=True)
class ServerConfig:
    """What a server reads from, its address and access rules, and the folders of state and lake."""

    broker: str
    store_url: str
    address: tuple[str, int]
    state: Path
    worker: ServerWorker | None = None
    lake: Path | None = None
    access: AccessConfig = DEFAULT_ACCESS


def serve(app: App, config: ServerConfig, stop: threading.Event, extra_routes: Sequence[Route] = ()) -> None:
    """Serve an app until `stop` is set, with `extra_routes`."""
    tune_for_latency()
    guard, broker = _create_guard(config), config.broker
    online, progress_table = create_store_reader(app, broker, config.store_url), ProgressTable()
    ledgers = StreamLedgers(broker, app.streams, app.views)
    backfill_readiness = BackfillReadiness(config.state, online, progress_table)
    prediction_log = PredictionLog(Producer(broker, LINGER_MS, DELIVERY_SECONDS) if app.models else None)
    with (
        bind(*config.address, is_shared=config.worker is not None) as listen_socket,
        TailingConsumer(broker, [PROGRESS_TOPIC], progress_table.apply, is_latency_tolerant=True),
        ledgers,
        LagMonitor(
            broker, LogConsumers(app, progress_table, ledgers, online), publishes_groups=_is_first_worker(config.worker)
        ) as lag_monitor,
        prediction_log,
    ):
        serving_context, metric_history = (
            ModelServingContext(config.state, prediction_log, broker),
            MetricHistory(config.state / "history.db"),
        )
        components = ServerComponents(
            app=app,
            online=online,
            progress_table=progress_table,
            ledgers=ledgers,
            serving_context=serving_context,
            producer=Producer(broker),
            backfill_readiness=backfill_readiness,
            worker=config.worker,
            metric_history=metric_history,
            lake=config.lake,
            extra_routes=extra_routes,
            guard=guard,
            lag_monitor=lag_monitor,
            state=config.state,
        )
        uvloop.run(_serve_with_tls(stop, listen_socket, components, config.access))


def _create_guard(config: ServerConfig) -> RequestGuard:
    host, port = config.address
    return RequestGuard(GuardConfig(config.state, host, port, is_reachable(host, port)), config.access)


async def _serve_with_tls(
    stop: threading.Event, listen_socket: socket.socket, components: "ServerComponents", access: AccessConfig
) -> None:
    """Serve over TLS if there is a certificate, and reload it when it is renewed."""
    tls = server_tls_context(access)
    if tls is None:
        await serve_until(stop, listen_socket, components)
        return
    reload_task = asyncio.create_task(watch_certificate(tls, access))
    try:
        await serve_until(stop, listen_socket, components, tls)
    finally:
        reload_task.cancel()


class ServerComponents(NamedTuple):
    """The components that routes are built from; without a guard there is no authentication, and without a worker this
    process is the only one.
    """

    app: App
    online: OnlineStoreReader
    progress_table: ProgressTable
    ledgers: StreamLedgers
    serving_context: ModelServingContext
    producer: Producer | None = None
    backfill_readiness: BackfillReadiness | None = None
    worker: ServerWorker | None = None
    metric_history: MetricHistory | None = None
    lake: Path | None = None
    extra_routes: Sequence[Route] = ()
    guard: RequestGuard | None = None
    lag_monitor: LagMonitor | None = None
    state: Path | None = None

    def consumer_lag(self) -> LagSnapshot:
        """The consumer lag as of the last poll."""
        return LagSnapshot() if self.lag_monitor is None else self.lag_monitor.consumer_lag

    def watermark_causes(self) -> dict[str, str]:
        """What holds back watermarks, as text."""
        return (
            {}
            if self.lag_monitor is None
            else diagnose_watermarks(self.lag_monitor.consumers, self.consumer_lag(), time.time_ns() // 1000)
        )

    async def readiness_problems(self) -> ReadinessProblems:
        """The problems of this process: to answer, the store must have caught up; to be fresh, every query must run."""
        backfill_reasons = (
            [] if self.backfill_readiness is None else await self.backfill_readiness.missing_reasons(self.app.views)
        )
        uncomputed = self.progress_table.missing_queries(self.app.streams, self.app.views)
        return ReadinessProblems([*await self.online.readiness_problems(), *backfill_reasons], uncomputed)

    def app_status(self) -> AppStatus:
        """The status of the app's parts; the supervisor's file counts while the broker brings no reports."""
        status_file = None if self.state is None else read_status(self.state)
        return build_app_status(
            self.app, self.progress_table, more_parts=() if status_file is None else status_file.parts
        )


async def serve_until(
    stop: threading.Event, listen_socket: socket.socket, components: ServerComponents, tls: ssl.SSLContext | None = None
) -> None:
    """Serve requests until `stop` is set."""
    predictors = [_create_predictor(model, components) for model in components.app.models]
    stats_by_path: dict[str, RequestStats] = {}
    worker_stats = WorkerStats(
        components.worker, lambda: _process_counts(components, stats_by_path, predictors), components.readiness_problems
    )
    hot_keys = HotKeysHandler(components.app, components.ledgers)
    metric_sources = MetricSources(
        app=components.app,
        progress_table=components.progress_table,
        ledgers=components.ledgers,
        tables=components.online.tables,
        get_counts=worker_stats.total_counts,
        get_hot_keys=hot_keys.current_report,
        get_consumer_lag=components.consumer_lag,
        get_app_status=components.app_status,
    )
    metrics = MetricsHandler(metric_sources)
    sql_executor = SqlExecutor(
        components.lake, LiveTableReader(components.app, components.online, components.backfill_readiness)
    )
    router = create_router(
        components, predictors, MonitoringComponents(stats_by_path, worker_stats, metrics, hot_keys, sql_executor)
    )
    components.online.start()
    token_watches = [] if components.guard is None else [components.guard.watch_tokens()]
    background_tasks = [
        asyncio.create_task(coroutine)
        for coroutine in (worker_stats.publish(), *_history_tasks(components, metrics), *token_watches)
    ]
    try:
        await components.serving_context.start()
        await worker_stats.wait_until_ready(stop)
        await HttpServer(router, stop, tls).serve(listen_socket)
    finally:
        for task in background_tasks:
            task.cancel()
        sql_executor.stop()
        components.serving_context.stop()
        await components.online.stop()


def _encode_live_snapshot(components: ServerComponents, metrics: MetricsHandler) -> bytes:
    """Every metric of this moment, what holds back watermarks, and what is down."""
    return encode_snapshot(
        metrics.collect(),
        components.watermark_causes(),
        [outage.to_json() for outage in components.app_status().outages],
    )


def _history_tasks(components: ServerComponents, metrics: MetricsHandler) -> list[Coroutine[Any, Any, None]]:
    """The task that stores the history, in the first worker only."""
    return (
        [record_history(components.metric_history, metrics.collect)]
        if components.metric_history and _is_first_worker(components.worker)
        else []
    )


def _is_first_worker(worker: ServerWorker | None) -> bool:
    return worker is None or worker.is_first


class MonitoringComponents(NamedTuple):
    """The sources of monitoring routes: request statistics, worker statistics, metrics, heavy keys, and SQL."""

    stats_by_path: dict[str, RequestStats]
    worker_stats: WorkerStats
    metrics: MetricsHandler
    hot_keys: HotKeysHandler
    sql_executor: SqlExecutor


def create_router(
    components: ServerComponents, predictors: Sequence[Predictor], monitoring: MonitoringComponents
) -> Router:
    """Every route of the server."""
    app, online = components.app, components.online
    stats_by_path, worker_stats, metrics, hot_keys, sql_executor = monitoring
    runs_inline = bool(online.tables)
    guard, panels = components.guard, PanelsHandler(app.queries, sql_executor)
    health = HealthHandler(
        worker_stats,
        lambda: components.app_status().outages,
        lambda request: guard is None or guard.is_authorized(request, Scope.READ),
    )
    routes = [
        *dashboard_routes(app),
        *login_routes(guard),
        get_route(
            "/live",
            LiveMetricsHandler(partial(_encode_live_snapshot, components, metrics), panels.take_events),
            Scope.READ,
        ),
        get_route("/panels", panels, Scope.READ),
        post_route("/sql", SqlHandler(sql_executor), scope=Scope.READ),
        get_route("/history", HistoryHandler(components.metric_history), Scope.READ),
        get_route("/metrics", metrics, Scope.READ),
        get_route("/hot", hot_keys, Scope.READ),
        get_route("/v2", handle_server_metadata, Scope.READ),
        get_route("/v2/health/live", health.handle_live, Scope.OPEN),
        get_route("/v2/health/ready", health.handle_ready, Scope.OPEN),
        get_route("/ping", handle_ping, Scope.OPEN),
        get_route("/version", handle_version, Scope.READ),
        *(
            post_route(f"/features/{view.name}", _features_handler(view, components), runs_inline, Scope.READ)
            for view in app.views
        ),
        *(route for predictor in predictors for route in _predictor_routes(predictor, components)),
        *components.extra_routes,
    ]
    return Router([*routes, openapi_route(app, routes)], stats_by_path, guard)


def _can_read(guard: RequestGuard | None, request: Request) -> bool:
    return guard is None or guard.is_authorized(request, Scope.READ)


def openapi_route(app: App, routes: Sequence[Route]) -> Route:
    """The route that describes all routes, itself included."""
    own_route = get_route(openapi.OPENAPI_PATH, StaticHandler(b"", JSON_CONTENT_TYPE), Scope.READ)
    encoded_document = encode_json(openapi.build_document(app, [*routes, own_route]))
    return replace(own_route, handler=StaticHandler(encoded_document, JSON_CONTENT_TYPE))


def login_routes(guard: RequestGuard | None) -> list[Route]:
    """The routes for login and logout; they need no scope."""
    if guard is None:
        return [get_route(SESSION_PATH, SessionStatusHandler(lambda _: False), Scope.OPEN)]
    return [
        post_route(LOGIN_PATH, LoginHandler(guard.create_session), scope=Scope.OPEN),
        post_route(LOGOUT_PATH, LogoutHandler(guard.end_session), scope=Scope.OPEN),
        get_route(
            SESSION_PATH, SessionStatusHandler(lambda request: guard.find_session(request) is not None), Scope.OPEN
        ),
    ]


def _create_predictor(model: Model, components: ServerComponents) -> Predictor:
    return Predictor(
        model,
        components.online,
        components.serving_context.create_resolver(model),
        components.serving_context.prediction_log,
    )


def _process_counts(
    components: ServerComponents, stats_by_path: dict[str, RequestStats], predictors: Sequence[Predictor]
) -> ServerCounts:
    """The counts of this process."""
    return ServerCounts(
        stats_by_path,
        {predictor.model.name: predictor.stats for predictor in predictors},
        components.serving_context.prediction_log.lost_counts(),
        {view: table_counts(table) for view, table in components.online.tables.items()},
    )


def _predictor_routes(predictor: Predictor, components: ServerComponents) -> list[Route]:
    """Every route of a model."""
    name, inference = predictor.model.name, InferenceHandler(predictor)
    invocations = _require_backfills(predictor.model, components, InvocationsHandler(predictor))
    runs_inline = bool(components.online.tables)
    predict, infer = (
        _require_backfills(predictor.model, components, handler)
        for handler in (PredictHandler(predictor), inference.handle_infer)
    )
    handlers_by_path = {
        f"/predict/{name}": predict,
        f"/v2/models/{name}/infer": infer,
        f"/invocations/{name}": invocations,
    }
    handlers_by_path |= {"/invocations": invocations} if len(components.app.models) == 1 else {}
    return [
        *(
            post_route(path, path_handler, runs_inline, Scope.PREDICT)
            for path, path_handler in handlers_by_path.items()
        ),
        get_route(f"/v2/models/{name}/ready", inference.handle_ready, Scope.PREDICT),
        get_route(f"/v2/models/{name}", inference.handle_metadata, Scope.PREDICT),
    ]


def _require_backfills(model: Model, components: ServerComponents, handler: Handler) -> Handler:
    if components.backfill_readiness is not None:
        for view in model.views:
            handler = require_backfill(view, components.backfill_readiness, handler)
    return handler


def _features_handler(view: View, components: ServerComponents) -> Handler:
    served_log = ServedLogWriter(view, components.producer) if components.producer else None
    handler = FeaturesHandler(view, components.online, served_log)
    return (
        handler
        if components.backfill_readiness is None
        else require_backfill(view, components.backfill_readiness, handler)
    )
