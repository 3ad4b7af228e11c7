"""The serving part of an app: its tables followed, its queries watched, its features answered over HTTP."""

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
from headrace.declare.model import Model
from headrace.declare.views import View
from headrace.log.follow import Follower
from headrace.log.lag import Behind
from headrace.log.outages import AppStatus, status_of
from headrace.log.produce import Producer
from headrace.log.progress import TOPIC, ProgressBoard
from headrace.log.status_file import read_status
from headrace.serve import openapi
from headrace.serve.access import UNTOLD, Access
from headrace.serve.answers import JSON_TYPE, encode_json
from headrace.serve.backfilled import Histories, once_whole
from headrace.serve.colleagues import Colleagues, Missing, Worker
from headrace.serve.contenders import Scoring
from headrace.serve.counted import Counted, count_of
from headrace.serve.features import Features
from headrace.serve.guard import Guard, GuardPlace
from headrace.serve.health import Health
from headrace.serve.held import held
from headrace.serve.history import History, Told, keep_on
from headrace.serve.hot import Hot
from headrace.serve.http import Handle, Http, Request, Route, get, post
from headrace.serve.inference import Inference, server_metadata
from headrace.serve.invocations import Invocations, own_version, ping
from headrace.serve.lagging import Lagging, Readers
from headrace.serve.ledgers import Ledgers
from headrace.serve.listen import StoppableServer, bind, is_reachable
from headrace.serve.live import Live, snapshot
from headrace.serve.login import LOGOUT_PATH, SESSION_PATH, LoggedIn, Login, Logout
from headrace.serve.login import PATH as LOGIN
from headrace.serve.metrics import Metrics, Sources
from headrace.serve.noted import PredictionLog
from headrace.serve.page import Fixed, page_of
from headrace.serve.panels import Panels
from headrace.serve.predict import Predict
from headrace.serve.predictor import Predictor
from headrace.serve.scopes import Scope
from headrace.serve.served import ServedLog
from headrace.serve.sql import LiveTables, Queries, Sql
from headrace.serve.tallies import Tally
from headrace.serve.tls import follow_files, server_tls
from headrace.store.choose import online_of
from headrace.store.online import Online, apply_politely

# Predictions are sent in batches, and given up soon: a server that stops waits no longer for a broker that is gone.
LINGER_MS, DELIVERY_SECONDS = 5.0, 10.0


@dataclass(frozen=True)
class ServePlace:
    """What a server reads from, where it answers and whom, where backfills are written down, and where the lake is."""

    broker: str
    store_url: str
    address: tuple[str, int]
    state: Path
    worker: Worker | None = None
    lake: Path | None = None
    access: Access = UNTOLD


def serve(app: App, place: ServePlace, stop: threading.Event, more: Sequence[Route] = ()) -> None:
    """Serve an app until `stop` is set, and answer whatever `more` does."""
    apply_politely()
    guard, broker = _guard(place), place.broker
    online, board = online_of(app, broker, place.store_url), ProgressBoard()
    ledgers = Ledgers(broker, app.streams, app.views)
    histories = Histories(place.state, online, board)
    log = PredictionLog(Producer(broker, LINGER_MS, DELIVERY_SECONDS) if app.models else None)
    with (
        bind(*place.address, is_shared=place.worker is not None) as listening,
        Follower(broker, [TOPIC], board.apply, patient=True),
        ledgers,
        Lagging(broker, Readers(app, board, ledgers, online), tells=_is_first(place.worker)) as lagging,
        log,
    ):
        scoring, history = Scoring(place.state, log, broker), History(place.state / "history.db")
        parts = Parts(
            app=app,
            online=online,
            board=board,
            ledgers=ledgers,
            scoring=scoring,
            producer=Producer(broker),
            histories=histories,
            worker=place.worker,
            history=history,
            lake=place.lake,
            more=more,
            guard=guard,
            lagging=lagging,
            state=place.state,
        )
        uvloop.run(_answer_securely(stop, listening, parts, place.access))


def _guard(place: ServePlace) -> Guard:
    host, port = place.address
    return Guard(GuardPlace(place.state, host, port, is_reachable(host, port)), place.access)


async def _answer_securely(stop: threading.Event, listening: socket.socket, parts: "Parts", access: Access) -> None:
    """Answer over TLS if there is a certificate, and take the one that follows it."""
    tls = server_tls(access)
    if tls is None:
        await answer_until(stop, listening, parts)
        return
    following = asyncio.create_task(follow_files(tls, access))
    try:
        await answer_until(stop, listening, parts, tls)
    finally:
        following.cancel()


class Parts(NamedTuple):
    """What answers are made from, who keeps a sample, who knows of backfills, which worker this is, what was told, what
    else is answered, who says who may ask (without a guard, whoever reaches the server) and who knows how far behind
    everything is.
    """

    app: App
    online: Online
    board: ProgressBoard
    ledgers: Ledgers
    scoring: Scoring
    producer: Producer | None = None
    histories: Histories | None = None
    worker: Worker | None = None
    history: History | None = None
    lake: Path | None = None
    more: Sequence[Route] = ()
    guard: Guard | None = None
    lagging: Lagging | None = None
    state: Path | None = None

    def behind(self) -> Behind:
        """How far whoever reads the log is behind, as last looked up."""
        return Behind() if self.lagging is None else self.lagging.behind

    def held(self) -> dict[str, str]:
        """What holds back watermarks, in words."""
        return {} if self.lagging is None else held(self.lagging.readers, self.behind(), time.time_ns() // 1000)

    async def missing(self) -> Missing:
        """What this process misses: to answer, the store must have caught up; to be fresh, every query must run."""
        histories = [] if self.histories is None else await self.histories.missing(self.app.views)
        computed = self.board.missing(self.app.streams, self.app.views)
        return Missing([*await self.online.missing(), *histories], computed)

    def status(self) -> AppStatus:
        """What of the app is up, and what is down; the supervisor's file counts while the broker brings no news."""
        written = None if self.state is None else read_status(self.state)
        return status_of(self.app, self.board, more_parts=() if written is None else written.parts)


async def answer_until(
    stop: threading.Event, listening: socket.socket, parts: Parts, tls: ssl.SSLContext | None = None
) -> None:
    """Answer requests until `stop` is set."""
    predictors = [_predictor(model, parts) for model in parts.app.models]
    tallies: dict[str, Tally] = {}
    colleagues = Colleagues(parts.worker, lambda: _counted(parts, tallies, predictors), parts.missing)
    hot = Hot(parts.app, parts.ledgers)
    sources = Sources(
        app=parts.app,
        board=parts.board,
        ledgers=parts.ledgers,
        tables=parts.online.tables,
        counted=colleagues.counted,
        hot=hot.report,
        behind=parts.behind,
        status=parts.status,
    )
    metrics = Metrics(sources)
    queries = Queries(parts.lake, LiveTables(parts.app, parts.online, parts.histories))
    http = http_of(parts, predictors, Telling(tallies, colleagues, metrics, hot, queries))
    parts.online.start()
    following = [] if parts.guard is None else [parts.guard.follow()]
    telling = [asyncio.create_task(one) for one in (colleagues.tell(), *_keeping(parts, metrics), *following)]
    try:
        await parts.scoring.start()
        await colleagues.hold_back(stop)
        await StoppableServer(http, stop, tls).serve(listening)
    finally:
        for task in telling:
            task.cancel()
        queries.stop()
        parts.scoring.stop()
        await parts.online.stop()


def _told(parts: Parts, metrics: Metrics) -> bytes:
    """Every number of this moment, what holds back watermarks, and what is down."""
    return snapshot(metrics.collect(), parts.held(), [one.as_json() for one in parts.status().outages])


def _keeping(parts: Parts, metrics: Metrics) -> list[Coroutine[Any, Any, None]]:
    """What keeps the history: of several workers, the first does."""
    return [keep_on(parts.history, metrics.collect)] if parts.history and _is_first(parts.worker) else []


def _is_first(worker: Worker | None) -> bool:
    return worker is None or worker.is_first


class Telling(NamedTuple):
    """Who tells of the app and of this server: what was asked, by all workers, every number, heavy keys, queries."""

    tallies: dict[str, Tally]
    colleagues: Colleagues
    metrics: Metrics
    hot: Hot
    queries: Queries


def http_of(parts: Parts, predictors: Sequence[Predictor], telling: Telling) -> Http:
    """Everything the server answers."""
    app, online = parts.app, parts.online
    tallies, colleagues, metrics, hot, queries = telling
    is_at_hand = bool(online.tables)
    guard, panels = parts.guard, Panels(app.queries, queries)
    health = Health(
        colleagues, lambda: parts.status().outages, lambda request: guard is None or guard.allows(request, Scope.READ)
    )
    routes = [
        *page_of(app),
        *login_of(guard),
        get("/live", Live(partial(_told, parts, metrics), panels.news), Scope.READ),
        get("/panels", panels, Scope.READ),
        post("/sql", Sql(queries), scope=Scope.READ),
        get("/history", Told(parts.history), Scope.READ),
        get("/metrics", metrics, Scope.READ),
        get("/hot", hot, Scope.READ),
        get("/v2", server_metadata, Scope.READ),
        get("/v2/health/live", health.live, Scope.OPEN),
        get("/v2/health/ready", health.ready, Scope.OPEN),
        get("/ping", ping, Scope.OPEN),
        get("/version", own_version, Scope.READ),
        *(post(f"/features/{view.name}", _features(view, parts), is_at_hand, Scope.READ) for view in app.views),
        *(route for predictor in predictors for route in _routes_of(predictor, parts)),
        *parts.more,
    ]
    return Http([*routes, openapi_of(app, routes)], tallies, guard)


def _may_read(guard: Guard | None, request: Request) -> bool:
    return guard is None or guard.allows(request, Scope.READ)


def openapi_of(app: App, routes: Sequence[Route]) -> Route:
    """What tells of all routes, itself among them."""
    itself = get(openapi.PATH, Fixed(b"", JSON_TYPE), Scope.READ)
    described = encode_json(openapi.document(app, [*routes, itself]))
    return replace(itself, handle=Fixed(described, JSON_TYPE))


def login_of(guard: Guard | None) -> list[Route]:
    """How a browser comes in, and goes; whoever may do nothing else may do that."""
    if guard is None:
        return [get(SESSION_PATH, LoggedIn(lambda _: False), Scope.OPEN)]
    return [
        post(LOGIN, Login(guard.session), scope=Scope.OPEN),
        post(LOGOUT_PATH, Logout(guard.end_session), scope=Scope.OPEN),
        get(SESSION_PATH, LoggedIn(lambda request: guard.session_of(request) is not None), Scope.OPEN),
    ]


def _predictor(model: Model, parts: Parts) -> Predictor:
    return Predictor(model, parts.online, parts.scoring.contenders(model), parts.scoring.log)


def _counted(parts: Parts, tallies: dict[str, Tally], predictors: Sequence[Predictor]) -> Counted:
    """What this process has counted."""
    return Counted(
        tallies,
        {one.model.name: one.tally for one in predictors},
        parts.scoring.log.lost(),
        {view: count_of(table) for view, table in parts.online.tables.items()},
    )


def _routes_of(predictor: Predictor, parts: Parts) -> list[Route]:
    """Every way to ask a model."""
    name, inference = predictor.model.name, Inference(predictor)
    invocations = _once_all_whole(predictor.model, parts, Invocations(predictor))
    is_at_hand = bool(parts.online.tables)
    predict, infer = (_once_all_whole(predictor.model, parts, one) for one in (Predict(predictor), inference.infer))
    ways = {f"/predict/{name}": predict, f"/v2/models/{name}/infer": infer, f"/invocations/{name}": invocations}
    ways |= {"/invocations": invocations} if len(parts.app.models) == 1 else {}
    return [
        *(post(path, handle, is_at_hand, Scope.PREDICT) for path, handle in ways.items()),
        get(f"/v2/models/{name}/ready", inference.ready, Scope.PREDICT),
        get(f"/v2/models/{name}", inference.metadata, Scope.PREDICT),
    ]


def _once_all_whole(model: Model, parts: Parts, handle: Handle) -> Handle:
    if parts.histories is not None:
        for view in model.views:
            handle = once_whole(view, parts.histories, handle)
    return handle


def _features(view: View, parts: Parts) -> Handle:
    served = ServedLog(view, parts.producer) if parts.producer else None
    features = Features(view, parts.online, served)
    return features if parts.histories is None else once_whole(view, parts.histories, features)
