"""A server in this process, and a client for it."""

import json
import ssl
import threading
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from http.client import HTTPConnection
from pathlib import Path
from typing import Any

import uvloop

import headrace as hr
from headrace.declare.app import App
from headrace.embedded_servers.ports import HOST, free_port, is_listening
from headrace.kafka.record import ConsumerRecord
from headrace.kafka.status.progress_table import ProgressTable
from headrace.kafka.status.reports.queries import QueryProgress
from headrace.online_store.memory.memory_store import MemoryStore
from headrace.online_store.memory.memory_store_reader import MemoryStoreReader, OnlineStoreReader
from headrace.server.auth.request_guard import RequestGuard
from headrace.server.features.backfill_readiness import BackfillReadiness
from headrace.server.http.listener import HttpServer, bind
from headrace.server.http.routing import Route, Router
from headrace.server.inference.model_resolver import ModelServingContext
from headrace.server.inference.prediction_log import PredictionLog
from headrace.server.metrics.ledgers import StreamLedgers
from headrace.server.metrics.metric_history import MetricHistory
from headrace.server.server import ServerComponents, serve_until
from headrace.tiles.events.event_parser import parse_event
from headrace.tiles.fold import fold_into_tiles, to_event_columns
from headrace.tiles.layout import hop_layouts
from headrace.tiles.tile import encode_key, encode_tile
from tests.waiting import SOCKET_S, patiently, wait_until

NOON = "2026-01-01T12:00:00Z"


@dataclass(frozen=True)
class Said:
    """An answer."""

    status: int
    headers: Mapping[str, str]
    body: bytes

    @property
    def json(self) -> Any:
        return json.loads(self.body)

    @property
    def error(self) -> str:
        return str(self.json["error"])


@dataclass(frozen=True)
class Asking:
    """A client of one server."""

    port: int

    def __call__(self, method: str, path: str, body: Any = None, headers: Mapping[str, str] | None = None) -> Said:
        sent = body if isinstance(body, bytes | str | None) else json.dumps(body)
        connection = HTTPConnection(HOST, self.port, timeout=SOCKET_S)
        try:
            connection.request(method, path, sent, dict(headers or {}))
            answer = connection.getresponse()
            return Said(answer.status, {k.lower(): v for k, v in answer.getheaders()}, answer.read())
        finally:
            connection.close()

    def features(self, view: hr.View, keys: Any, **more: Any) -> Said:
        return self("POST", f"/features/{view.name}", {"keys": keys, **more})

    def rows(self, view: hr.View, keys: Any, **more: Any) -> list[dict[str, Any]]:
        said = self.features(view, keys, **more)
        assert said.status == 200, said.body
        return list(said.json["rows"])


@contextmanager
def answering(
    routes: Iterable[Route], guard: RequestGuard | None = None, tls: ssl.SSLContext | None = None
) -> Iterator[int]:
    """A server of some routes alone, until the block ends; its port."""
    stop, listening = threading.Event(), bind(HOST, free_port())
    server = HttpServer(Router(routes, {}, guard), stop, tls).serve(listening)
    thread = threading.Thread(target=uvloop.run, args=(server,))
    thread.start()
    port = listening.getsockname()[1]
    try:
        wait_until(lambda: is_listening(HOST, port), 10, "the server to answer")
        yield port
    finally:
        stop.set()
        thread.join(patiently(10))
        assert not thread.is_alive()


NOT_LOGGED = ModelServingContext(Path("/nowhere"), PredictionLog())


@contextmanager
def serving(
    app: App,
    online: OnlineStoreReader,
    board: ProgressTable,
    histories: BackfillReadiness | None = None,
    scoring: ModelServingContext = NOT_LOGGED,
    history: MetricHistory | None = None,
    *,
    guard: RequestGuard | None = None,
    tls: ssl.SSLContext | None = None,
    lake: Path | None = None,
    more: Sequence[Route] = (),
) -> Iterator[Asking]:
    """The server's own code on a free port, until the block ends."""
    stop, listening = threading.Event(), bind(HOST, free_port())
    ledgers = StreamLedgers("127.0.0.1:1", ())
    kept = {"backfill_readiness": histories, "metric_history": history, "lake": lake}
    parts = ServerComponents(app, online, board, ledgers, scoring, guard=guard, extra_routes=more, **kept)  # type: ignore[arg-type]
    answering = serve_until(stop, listening, parts, tls)
    thread = threading.Thread(target=uvloop.run, args=(answering,))
    thread.start()
    port = listening.getsockname()[1]
    try:
        wait_until(lambda: is_listening(HOST, port), 10, "the server to answer")
        yield Asking(port)
    finally:
        stop.set()
        thread.join()


@contextmanager
def serving_store(store: MemoryStore, *views: hr.View) -> Iterator[Asking]:
    """A server of a store that a test feeds itself."""
    app = app_of_views(*views)
    with serving(app, MemoryStoreReader(store, None), board_of(app)) as ask:
        yield ask


def app_of_views(*views: hr.View) -> App:
    return App("shop", tuple(dict.fromkeys(stream for view in views for stream in view.streams)), views)


def board_of(app: App) -> ProgressTable:
    """A board on which everything runs."""
    board, now_us = ProgressTable(), time.time_ns() // 1000 + 10**12
    for stream in app.streams:
        names = tuple(view.name for view in app.views_of(stream))
        board.reports(QueryProgress)[f"{stream.name}.gate"] = QueryProgress(
            "gate", stream.name, (), "real-time", True, now_us
        )
        board.reports(QueryProgress)[f"{stream.name}.tiles"] = QueryProgress(
            "tiles", stream.name, names, "real-time", True, now_us
        )
    return board


def tiles_of(view: hr.View, events: Iterable[Mapping[str, Any]]) -> list[ConsumerRecord]:
    """The changelog of a view after these events, each arriving at its event time."""
    read = [parse_event(view.streams[0].schema, json.dumps(event).encode()) for event in events]
    arrivals = [event[view.streams[0].time] for event in read]
    layouts = {layout.version: layout for layout in hop_layouts(view)}
    return [
        ConsumerRecord(view.topic, 0, offset, 0, encode_key(key), encode_tile(layouts[key.version], tile), None)
        for offset, (key, tile) in enumerate(
            fold_into_tiles(view, to_event_columns(view, view.streams[0], read, arrivals))
        )
    ]
