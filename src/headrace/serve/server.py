"""The serving part of an app: its tables followed, its queries watched, its features answered over HTTP."""

import asyncio
import socket
import threading
from collections.abc import Coroutine, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import uvloop

from headrace.declare.app import App
from headrace.declare.model import Model
from headrace.declare.views import View
from headrace.log.follow import Follower
from headrace.log.produce import Producer
from headrace.log.progress import TOPIC, ProgressBoard
from headrace.serve.backfilled import Histories, once_whole
from headrace.serve.colleagues import Colleagues, Worker
from headrace.serve.contenders import Scoring
from headrace.serve.counted import Counted, count_of
from headrace.serve.features import Features
from headrace.serve.health import Health
from headrace.serve.history import History, Told, keep_on
from headrace.serve.http import Handle, Http, Route, get, post
from headrace.serve.inference import Inference, server_metadata
from headrace.serve.invocations import Invocations, own_version, ping
from headrace.serve.ledgers import Ledgers
from headrace.serve.listen import StoppableServer, bind
from headrace.serve.live import Live, snapshot
from headrace.serve.metrics import Metrics, Sources
from headrace.serve.noted import PredictionLog
from headrace.serve.page import page_of
from headrace.serve.predict import Predict
from headrace.serve.predictor import Predictor
from headrace.serve.served import ServedLog
from headrace.serve.tallies import Tally
from headrace.store.choose import online_of
from headrace.store.online import Online, apply_politely

# Predictions are sent in batches, and given up soon: a server that stops waits no longer for a broker that is gone.
LINGER_MS, DELIVERY_SECONDS = 5.0, 10.0


@dataclass(frozen=True)
class ServePlace:
    """What a server reads from, where it answers, and where backfills are written down."""

    broker: str
    store_url: str
    address: tuple[str, int]
    state: Path
    worker: Worker | None = None


def serve(app: App, place: ServePlace, stop: threading.Event) -> None:
    """Serve an app until `stop` is set."""
    apply_politely()
    broker = place.broker
    online, board, ledgers = online_of(app, broker, place.store_url), ProgressBoard(), Ledgers(broker, app.streams)
    histories = Histories(place.state, online, board)
    log = PredictionLog(Producer(broker, LINGER_MS, DELIVERY_SECONDS) if app.models else None)
    with (
        bind(*place.address, is_shared=place.worker is not None) as listening,
        Follower(broker, [TOPIC], board.apply, patient=True),
        ledgers,
        log,
    ):
        scoring, history = Scoring(place.state, log, broker), History(place.state / "history.db")
        parts = Parts(app, online, board, ledgers, scoring, Producer(broker), histories, place.worker, history)
        uvloop.run(answer_until(stop, listening, parts))


class Parts(NamedTuple):
    """What answers are made from, who keeps a sample, who knows of backfills, which worker this is, what was told."""

    app: App
    online: Online
    board: ProgressBoard
    ledgers: Ledgers
    scoring: Scoring
    producer: Producer | None = None
    histories: Histories | None = None
    worker: Worker | None = None
    history: History | None = None

    async def missing(self) -> list[str]:
        """What keeps this process from answering, a sentence each: the store must have caught up, every query run."""
        missing = [*await self.online.missing(), *self.board.missing(self.app.streams, self.app.views)]
        return missing if self.histories is None else [*missing, *await self.histories.missing(self.app.views)]


async def answer_until(stop: threading.Event, listening: socket.socket, parts: Parts) -> None:
    """Answer requests until `stop` is set."""
    predictors = [_predictor(model, parts) for model in parts.app.models]
    tallies: dict[str, Tally] = {}
    colleagues = Colleagues(parts.worker, lambda: _counted(parts, tallies, predictors), parts.missing)
    sources = Sources(parts.app, parts.board, parts.ledgers, parts.online.tables, colleagues.counted)
    metrics = Metrics(sources)
    http = http_of(parts, predictors, tallies, colleagues, metrics)
    parts.online.start()
    telling = [asyncio.create_task(one) for one in (colleagues.tell(), *_keeping(parts, metrics))]
    try:
        await parts.scoring.start()
        await colleagues.hold_back(stop)
        await StoppableServer(http, stop).serve(listening)
    finally:
        for task in telling:
            task.cancel()
        parts.scoring.stop()
        await parts.online.stop()


def _keeping(parts: Parts, metrics: Metrics) -> list[Coroutine[Any, Any, None]]:
    """What keeps the history: of several workers, the first does."""
    is_first = parts.worker is None or parts.worker.number == 0
    return [keep_on(parts.history, metrics.collect)] if parts.history is not None and is_first else []


def http_of(
    parts: Parts, predictors: Sequence[Predictor], tallies: dict[str, Tally], colleagues: Colleagues, metrics: Metrics
) -> Http:
    """Everything the server answers."""
    app, online = parts.app, parts.online
    is_at_hand = bool(online.tables)
    health = Health(colleagues)
    routes = [
        *page_of(app),
        get("/live", Live(lambda: snapshot(metrics.collect()))),
        get("/history", Told(parts.history)),
        get("/metrics", metrics),
        get("/v2", server_metadata),
        get("/v2/health/live", health.live),
        get("/v2/health/ready", health.ready),
        get("/ping", ping),
        get("/version", own_version),
        *(post(f"/features/{view.name}", _features(view, parts), is_at_hand) for view in app.views),
        *(route for predictor in predictors for route in _routes_of(predictor, parts)),
    ]
    return Http(routes, tallies)


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
    alone = [post("/invocations", invocations, is_at_hand)] if len(parts.app.models) == 1 else []
    return [
        post(f"/predict/{name}", _once_all_whole(predictor.model, parts, Predict(predictor)), is_at_hand),
        post(f"/v2/models/{name}/infer", _once_all_whole(predictor.model, parts, inference.infer), is_at_hand),
        get(f"/v2/models/{name}/ready", inference.ready),
        get(f"/v2/models/{name}", inference.metadata),
        post(f"/invocations/{name}", invocations, is_at_hand),
        *alone,
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
