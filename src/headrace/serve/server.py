"""The serving part of an app: its tables followed, its queries watched, its features answered over HTTP."""

import socket
import sys
import threading
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import uvloop

from headrace.declare.app import App
from headrace.declare.views import View
from headrace.log.follow import Follower
from headrace.log.produce import Producer
from headrace.log.progress import TOPIC, ProgressBoard
from headrace.serve.backfilled import Histories, once_whole
from headrace.serve.features import Features
from headrace.serve.health import Health
from headrace.serve.http import Handle, Http, get, post
from headrace.serve.index import Index
from headrace.serve.ledgers import Ledgers
from headrace.serve.listen import StoppableServer, bind
from headrace.serve.metrics import Metrics, Sources
from headrace.serve.served import ServedLog
from headrace.serve.tallies import Tally
from headrace.store.choose import online_of
from headrace.store.online import Online

# A thread that applies tiles gives way ten times as soon as Python's default: requests wait less behind it.
SWITCH_SECONDS = 0.0005


@dataclass(frozen=True)
class ServePlace:
    """What a server reads from, where it answers, and where backfills are written down."""

    broker: str
    store_url: str
    address: tuple[str, int]
    state: Path


def serve(app: App, place: ServePlace, stop: threading.Event) -> None:
    """Serve an app until `stop` is set."""
    sys.setswitchinterval(SWITCH_SECONDS)
    broker = place.broker
    online, board, ledgers = online_of(app, broker, place.store_url), ProgressBoard(), Ledgers(broker, app.streams)
    histories = Histories(place.state, online, board)
    with bind(*place.address) as listening, Follower(broker, [TOPIC], board.apply, patient=True), ledgers:
        parts = Parts(app, online, board, ledgers, Producer(broker), histories)
        uvloop.run(answer_until(stop, listening, online, http_of(parts)))


async def answer_until(stop: threading.Event, listening: socket.socket, online: Online, http: Http) -> None:
    """Answer requests from a store until `stop` is set."""
    online.start()
    try:
        await StoppableServer(http, stop).serve(sockets=[listening])
    finally:
        await online.stop()


class Parts(NamedTuple):
    """What answers are made from, who keeps a sample of them and who knows of backfills, if anybody does."""

    app: App
    online: Online
    board: ProgressBoard
    ledgers: Ledgers
    producer: Producer | None = None
    histories: Histories | None = None


def http_of(parts: Parts) -> Http:
    """Everything the server answers."""
    app, online = parts.app, parts.online
    tallies: dict[str, Tally] = {}
    health = Health(app, online, parts.board, parts.histories)
    routes = [
        get("/", Index(app)),
        get("/metrics", Metrics(Sources(app, parts.board, parts.ledgers, online.tables, tallies))),
        get("/v2/health/live", health.live),
        get("/v2/health/ready", health.ready),
        *(post(f"/features/{view.name}", _features(view, parts)) for view in app.views),
    ]
    return Http(routes, tallies)


def _features(view: View, parts: Parts) -> Handle:
    served = ServedLog(view, parts.online, parts.producer) if parts.producer else None
    features = Features(view, parts.online, served)
    return features if parts.histories is None else once_whole(view, parts.histories, features)
