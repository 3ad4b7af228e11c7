"""The serving part as a whole: fed through a broker, ready when everything runs, stopped cleanly."""

import socket
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

import headrace as hr
from headrace.declare.app import App
from headrace.embedded_servers.broker import EmbeddedBroker
from headrace.embedded_servers.ports import HOST, free_port, is_listening
from headrace.kafka.producer.producer import Producer
from headrace.kafka.status.heartbeat import ensure_progress_topic, publish_progress
from headrace.kafka.status.reports.queries import QueryProgress
from headrace.kafka.topics import ensure_topics
from headrace.online_store.memory.memory_store import MemoryStore
from headrace.online_store.memory.memory_store_reader import MemoryStoreReader
from headrace.online_store.registry import UnknownStoreError
from headrace.server.http.listener import ListenFailed
from headrace.server.server import ServerConfig, serve
from tests.kafka.streams import new_stream, new_view
from tests.server.server_thread import Asking, app_of_views, board_of, serving, tiles_of
from tests.waiting import patiently, wait_until


@contextmanager
def served(app: App, broker: str, store_url: str = "memory") -> Iterator[Asking]:
    """`serve` in a thread, once it listens."""
    stop, port = threading.Event(), free_port()
    with tempfile.TemporaryDirectory() as state:
        place = ServerConfig(broker, store_url, (HOST, port), Path(state))
        thread = threading.Thread(target=serve, args=(app, place, stop))
        thread.start()
        try:
            wait_until(lambda: is_listening(HOST, port), 10, "the server to listen")
            yield Asking(port)
        finally:
            stop.set()
            thread.join(patiently(10))
            assert not thread.is_alive()


def tell(broker: str, app: App, *, running: bool = True) -> None:
    """What the queries of an app would report."""
    ensure_progress_topic(broker)
    with Producer(broker) as producer:
        for stream in app.streams:
            names, now_us = tuple(view.name for view in app.views_of(stream)), time.time_ns() // 1000
            for query, views in ((f"{stream.name}.gate", ()), (f"{stream.name}.tiles", names)):
                publish_progress(producer, QueryProgress(query, stream.name, views, "real-time", running, now_us))


def send_tiles(broker: str, view: hr.View, count: int) -> None:
    """The tiles of so many payments of one card, a second apart."""
    now = time.time()
    events = [{"id": str(n), "card": "c1", "amount": 1.0, "at": int((now - n) * 1000)} for n in range(count)]
    with Producer(broker) as producer:
        for record in tiles_of(view, events):
            producer.send(view.topic, record.value, key=record.key, partition=0)


def ready(ask: Asking) -> bool:
    return ask("GET", "/v2/health/ready").status == 200


def payments_of(ask: Asking, view: hr.View) -> int:
    return int(ask.rows(view, ["c1"])[0]["values"]["payments_1h"])


def test_tiles_in_the_changelog_are_served_once_the_server_is_ready(broker: EmbeddedBroker) -> None:
    app = app_of_views(view := new_view(new_stream()))
    ensure_topics(broker.address, app.streams, app.views)
    send_tiles(broker.address, view, 30)
    tell(broker.address, app)
    with served(app, broker.address) as ask:
        wait_until(lambda: ready(ask), 10, "the server to be ready")
        assert payments_of(ask, view) == 30
        send_tiles(broker.address, view, 40)
        wait_until(lambda: payments_of(ask, view) == 40, 10, "new tiles to be served")


def test_a_server_started_before_its_topics_says_what_is_missing(broker: EmbeddedBroker) -> None:
    app = app_of_views(view := new_view(new_stream()))
    with served(app, broker.address) as ask:
        assert ask("GET", "/v2/health/live").status == 200
        said = ask("GET", "/v2/health/ready")
        assert said.status == 503
        assert said.json["ready"] is False
        assert any(view.topic in sentence or "changelogs" in sentence for sentence in said.json["missing"])
        assert f"the gate of {view.streams[0].name} does not run yet" in said.json["missing"]
        ensure_topics(broker.address, app.streams, app.views)
        tell(broker.address, app)
        wait_until(lambda: ready(ask), 20, "the server to find its topics")


def test_a_query_that_stops_makes_the_server_unready(broker: EmbeddedBroker) -> None:
    app = app_of_views(view := new_view(new_stream()))
    ensure_topics(broker.address, app.streams, app.views)
    tell(broker.address, app)
    with served(app, broker.address) as ask:
        wait_until(lambda: ready(ask), 10, "the server to be ready")
        tell(broker.address, app, running=False)
        wait_until(lambda: not ready(ask), 10, "the server to notice")
        assert ask("GET", "/v2/health/ready").json["missing"] == [
            f"the gate of {view.streams[0].name} does not run yet",
            f"the tiles of {view.name} are not computed yet",
        ]


def test_a_view_of_several_streams_is_not_ready_before_the_tiles_of_each_are_computed() -> None:
    paid, back = new_stream(), new_stream()
    app = app_of_views(view := new_view([paid, back]))
    board, store = board_of(app), MemoryStore([view])
    board.reports(QueryProgress).pop(f"{back.name}.tiles")
    with serving(app, MemoryStoreReader(store, None), board) as ask:
        said = ask("GET", "/v2/health/ready").json
        assert said["missing"] == [f"the tiles of {view.name} from {back.name} are not computed yet"]


def test_a_server_without_a_broker_lives_and_is_not_ready() -> None:
    app = app_of_views(new_view(new_stream()))
    with served(app, f"{HOST}:{free_port()}") as ask:
        assert ask("GET", "/v2/health/live").json == {"live": True}
        assert ask("GET", "/v2/health/ready").status == 503


@pytest.mark.parametrize("store_url", ["memory", f"redis://{HOST}:{free_port()}"], ids=["memory", "redis"])
def test_an_app_without_views_is_served_too(broker: EmbeddedBroker, store_url: str) -> None:
    app = App("streams", (new_stream(),), ())
    ensure_topics(broker.address, app.streams)
    tell(broker.address, app)
    with served(app, broker.address, store_url) as ask:
        assert ask("GET", "/").status == 200
        assert ask("POST", "/features/Any", b"{}").status == 404


def test_a_taken_port_is_said_in_a_sentence(tmp_path: Path) -> None:
    app = app_of_views(new_view(new_stream()))
    with socket.create_server((HOST, 0)) as other:
        port = other.getsockname()[1]
        with pytest.raises(ListenFailed, match=f"{HOST}:{port}: another program listens there"):
            serve(app, ServerConfig("127.0.0.1:1", "memory", (HOST, port), tmp_path), threading.Event())


def test_an_unknown_store_is_said_in_a_sentence(tmp_path: Path) -> None:
    app = app_of_views(new_view(new_stream()))
    with pytest.raises(UnknownStoreError, match="'postgres://'"):
        serve(app, ServerConfig("127.0.0.1:1", "postgres://", (HOST, free_port()), tmp_path), threading.Event())
