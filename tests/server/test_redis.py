"""Serving from Redis: equal to memory, ready once it is filled, and quick to report an outage."""

from contextlib import AbstractContextManager
from functools import partial

import pytest

from headrace.declare.app import App
from headrace.declare.features.view import View
from headrace.embedded_servers.broker import EmbeddedBroker
from headrace.embedded_servers.ports import HOST, free_port
from headrace.kafka.topics import ensure_topics
from headrace.online_store.changelog_applier import apply_until
from headrace.online_store.factory import create_store_reader
from headrace.online_store.tile_packing import hash_key
from tests.background import beside
from tests.kafka.streams import new_stream, new_view
from tests.online_store.conftest import own_redis  # noqa: F401  # a fixture
from tests.server.server_thread import Asking, app_of_views, board_of, serving, tiles_of
from tests.server.test_server import payments_of, ready, send_tiles, served, tell
from tests.servers import OwnCluster, OwnRedis
from tests.waiting import wait_until

NOWHERE = "127.0.0.1:1"


def applying(app: App, broker: str, url: str) -> AbstractContextManager[None]:
    return beside(partial(apply_until, app, broker, url))


def test_redis_is_served_as_memory_is(redis_url: str) -> None:
    app = app_of_views(view := new_view(new_stream()))
    online = create_store_reader(app, NOWHERE, redis_url)
    online.store.apply(tiles_of(view, [{"id": "1", "card": "c1", "amount": 1.0, "at": "2026-01-01T12:00:00Z"}]))
    with serving(app, online, board_of(app)) as ask:
        said = ask.features(view, ["c1", "c2"], at="2026-01-01T12:01:00Z")
    assert said.json["rows"] == [
        {"card": "c1", "values": {"payments_1h": 1}, "event_time": "2026-01-01T12:00:00Z", "age_ms": 60000},
        {"card": "c2", "values": {"payments_1h": 0}, "event_time": None, "age_ms": None},
    ]


def test_many_keys_are_read_in_pieces(redis_url: str) -> None:
    app = app_of_views(view := new_view(new_stream()))
    online = create_store_reader(app, NOWHERE, redis_url)
    with serving(app, online, board_of(app)) as ask:
        assert len(ask.rows(view, [f"c{number}" for number in range(1000)])) == 1000


KINDS = ["redis", pytest.param("cassandra", marks=pytest.mark.faults)]


@pytest.mark.parametrize("kind", KINDS)
def test_a_server_is_ready_once_workers_have_filled_its_store(
    broker: EmbeddedBroker, kind: str, request: pytest.FixtureRequest
) -> None:
    url = request.getfixturevalue(f"{kind}_url")
    app = app_of_views(view := new_view(new_stream()))
    ensure_topics(broker.address, app.streams, app.views)
    send_tiles(broker.address, view, 30)
    tell(broker.address, app)
    with served(app, broker.address, url) as ask:
        wait_until(lambda: "apply" in str(ask("GET", "/v2/health/ready").json), 10, "the server to miss a worker")
        with applying(app, broker.address, url):
            wait_until(lambda: ready_again(ask, broker.address, app), 20, "the server to be ready")
            assert payments_of(ask, view) == 30
            send_tiles(broker.address, view, 40)
            wait_until(lambda: payments_of(ask, view) == 40, 10, "new tiles to be served")


def test_a_server_on_a_cluster_is_filled_again_when_one_of_the_three_came_back_empty(
    broker: EmbeddedBroker, cluster: OwnCluster
) -> None:
    app = app_of_views(view := new_view(new_stream()))
    ensure_topics(broker.address, app.streams, app.views)
    send_tiles(broker.address, view, 30)
    with served(app, broker.address, cluster.url) as ask, applying(app, broker.address, cluster.url):
        wait_until(lambda: ready_again(ask, broker.address, app), 20, "the server to be ready")
        assert payments_of(ask, view) == 30
        lost = cluster.server_of(hash_key(view.name, ("c1",)))
        lost.stop()
        lost.start()
        wait_until(lambda: counted(ask, view) == 30, 60, "what it had")


def counted(ask: Asking, view: View) -> int | None:
    """How many payments are served; None while nothing is."""
    try:
        return payments_of(ask, view)
    except (AssertionError, KeyError):
        return None


def ready_again(ask: Asking, broker: str, app: App) -> bool:
    tell(broker, app)
    return ready(ask)


NO_REDIS = [f"redis://{HOST}:{free_port()}", f"unix:///nowhere/{free_port()}.sock"]


@pytest.mark.parametrize("url", NO_REDIS, ids=["port", "socket"])
def test_a_redis_that_is_gone_is_said(url: str) -> None:
    app = app_of_views(view := new_view(new_stream()))
    with serving(app, create_store_reader(app, NOWHERE, url), board_of(app)) as ask:
        said = ask.features(view, ["c1"])
        assert said.status == 503
        assert said.error.startswith("The Redis store at ")


def test_a_redis_that_comes_back_is_served_again(own_redis: OwnRedis) -> None:  # noqa: F811
    app = app_of_views(view := new_view(new_stream()))
    with serving(app, create_store_reader(app, NOWHERE, own_redis.url), board_of(app)) as ask:
        assert ask.features(view, ["c1"]).status == 200
        own_redis.stop()
        assert ask.features(view, ["c1"]).status == 503
        own_redis.start()
        wait_until(lambda: ask.features(view, ["c1"]).status == 200, 5, "Redis to be found again")


def test_a_password_never_appears_in_an_answer() -> None:
    app = app_of_views(view := new_view(new_stream()))
    url = f"redis://user:secret@{HOST}:{free_port()}/0"
    with serving(app, create_store_reader(app, NOWHERE, url), board_of(app)) as ask:
        assert "secret" not in ask.features(view, ["c1"]).error
