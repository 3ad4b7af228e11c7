"""The Python client returns what the server served, with the types of `hr.testing`, or raises the server's error."""

import math
import threading
from collections.abc import Iterator
from datetime import UTC, datetime

import pytest

import headrace as hr
from headrace.client.protocol import ServerRefused, ServerUnreachable
from headrace.client.sync_client import Client
from headrace.embedded_servers.ports import HOST, free_port
from headrace.online_store.memory.memory_store import MemoryStore
from tests.server.server_thread import serving_store, tiles_of

payments = hr.Stream(
    "payments",
    schema="id string, card string, shop int, currency string, online boolean, amount double, at timestamp",
    id="id",
    key="card",
    time="at",
)


@hr.features(payments, by="card")
class CardSpend:
    payments = hr.count(windows="10m")
    spend = hr.sum("amount", windows="10m")
    latest = hr.last("at", windows="10m")
    recent = hr.ewm("amount", halflife="4m", windows="forever", hop="1m")
    shops = hr.top("shop", 2, windows="10m")
    by_shop = hr.count(by="shop", windows="10m")
    by_currency = hr.count(by="currency", windows="10m")
    by_online = hr.count(by="online", windows="10m")


@hr.features(payments, by=["card", "shop"])
class ShopSpend:
    payments = hr.count(windows="10m")


AT = datetime(2026, 1, 1, 0, 5, tzinfo=UTC)
EVENTS = [
    {"id": "p1", "card": "c1", "shop": 7, "currency": "7", "online": True, "amount": 5.0, "at": "2026-01-01T00:00:00Z"},
    {
        "id": "p2",
        "card": "c1",
        "shop": 7,
        "currency": "7",
        "online": False,
        "amount": 2.5,
        "at": "2026-01-01T00:04:00Z",
    },
    {"id": "p3", "card": "c2", "shop": 8, "amount": "Infinity", "at": "2026-01-01T00:04:00Z"},
]


@pytest.fixture
def client() -> Iterator[Client]:
    store = MemoryStore([CardSpend, ShopSpend])
    for view in (CardSpend, ShopSpend):
        store.apply(tiles_of(view, EVENTS))
    with serving_store(store, CardSpend, ShopSpend) as ask:
        client = Client(f"http://{HOST}:{ask.port}")
        yield client
        client.close()


def test_rows_are_served_values_with_the_types_of_python(client: Client) -> None:
    one, two, never_seen = client.features(CardSpend, ["c1", "c2", "c3"], at=AT)
    latest = datetime(2026, 1, 1, 0, 4, tzinfo=UTC)
    assert one.entity == {"card": "c1"}
    assert one.values == {
        "payments_10m": 2,
        "spend_10m": 7.5,
        "latest_10m": latest,
        "recent_forever": pytest.approx((5.0 * 0.5 + 2.5) / 1.5),
        "shops_10m": [7],
        "by_shop_10m": {7: 2},
        "by_currency_10m": {"7": 2},
        "by_online_10m": {False: 1, True: 1},
    }
    assert (one.event_time, one.age_ms) == (latest, 60_000)
    assert math.isinf(two.spend_10m)
    assert math.isinf(two.recent_forever)
    assert (never_seen.payments_10m, never_seen.spend_10m, never_seen.event_time) == (0, None, None)
    assert (never_seen.recent_forever, never_seen.shops_10m, never_seen.by_shop_10m) == (None, None, {})


def test_a_client_and_hr_testing_give_the_same(client: Client) -> None:
    fed = hr.testing.feed(CardSpend, EVENTS[:2]).at(AT)["c1"]
    (served,) = client.features(CardSpend, ["c1"], at="2026-01-01T00:05:00Z")
    for name in CardSpend.names:
        assert repr(getattr(served, name)) == repr(getattr(fed, name))


def test_an_entity_of_several_columns_is_a_list(client: Client) -> None:
    (row,) = client.features(ShopSpend, [["c1", 7]], at=AT)
    assert (row.entity, row.payments_10m) == ({"card": "c1", "shop": 7}, 2)


def test_a_feature_that_is_not_there_is_named_with_those_that_are(client: Client) -> None:
    (row,) = client.features(CardSpend, ["c1"])
    with pytest.raises(AttributeError, match=r"no feature 'payments_1h'.*payments_10m"):
        _ = row.payments_1h


def test_the_servers_sentence_is_the_error(client: Client) -> None:
    with pytest.raises(ServerRefused, match="keys") as caught:
        client.features(ShopSpend, ["c1"])
    assert caught.value.status == 400


def test_threads_may_share_a_client(client: Client) -> None:
    counts: list[int] = []

    def ask() -> None:
        counts.extend(client.features(CardSpend, ["c1"], at=AT)[0].payments_10m for _ in range(20))

    threads = [threading.Thread(target=ask) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert counts == [2] * 80


def test_a_connection_the_server_closed_is_opened_again(client: Client) -> None:
    client.features(CardSpend, ["c1"])
    client._connection.sock.shutdown(2)
    assert client.features(CardSpend, ["c1"], at=AT)[0].payments_10m == 2


def test_a_server_that_is_not_there_is_named() -> None:
    url = f"http://{HOST}:{free_port()}"
    with pytest.raises(ServerUnreachable, match=rf"{url}.*headrace up"):
        Client(url).features(CardSpend, ["c1"])


def test_an_address_without_a_scheme_is_refused() -> None:
    with pytest.raises(hr.HeadraceError, match=r"http://127\.0\.0\.1:8080"):
        Client("127.0.0.1:8080")
