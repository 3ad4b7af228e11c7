"""Tables over HTTP and in the client: joined on read, and reloaded while the server runs."""

from collections.abc import Iterator
from pathlib import Path

import pytest

import headrace as hr
from headrace.embedded_servers.ports import HOST
from headrace.online_store.memory.memory_store import MemoryStore
from tests.server.server_thread import NOON, Asking, serving_store, tiles_of
from tests.tiles.events.test_lookup_tables import payments, write
from tests.waiting import wait_until

PAYMENT = {"id": "p1", "card": "c1", "merchant": "m1", "amount": 5.0, "at": "2026-01-01T11:59:00Z"}


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return write(tmp_path / "m.parquet", merchant=["m1", "m2"], ceiling=[10.0, float("inf")], kind=["shop", "bar"])


@pytest.fixture
def view(file: Path) -> hr.View:
    merchants = hr.Table(str(file), key="merchant")

    @hr.features(payments, by="merchant")
    class Merchant:
        spend = hr.sum("amount", windows="1h")
        kind = merchants["kind"]
        ceiling = merchants["ceiling"]
        used = spend["1h"] / merchants["ceiling"]

    return Merchant


@pytest.fixture
def ask(view: hr.View) -> Iterator[Asking]:
    store = MemoryStore([view])
    store.apply(tiles_of(view, [PAYMENT]))
    with serving_store(store, view) as ask:
        yield ask


def test_values_come_with_their_table_for_keys_seen_and_never_seen(ask: Asking, view: hr.View) -> None:
    rows = ask.rows(view, ["m1", "m2", "m3"], at=NOON)
    assert [row["values"] for row in rows] == [
        {"spend_1h": 5.0, "kind": "shop", "ceiling": 10.0, "used": 0.5},
        {"spend_1h": None, "kind": "bar", "ceiling": "Infinity", "used": None},
        {"spend_1h": None, "kind": None, "ceiling": None, "used": None},
    ]


def test_a_server_that_has_answered_answers_anew_once_the_file_changes(ask: Asking, view: hr.View, file: Path) -> None:
    def used() -> float | None:
        (row,) = ask.rows(view, ["m1"], at=NOON)
        value: float | None = row["values"]["used"]
        return value

    assert used() == 0.5
    write(file, merchant=["m1"], ceiling=[20.0], kind=["shop"])
    wait_until(lambda: used() == 0.25, 10, "the server to read the file again")


def test_the_client_gives_them_too(ask: Asking, view: hr.View) -> None:
    client = hr.Client(f"http://{HOST}:{ask.port}")
    one, other = client.features(view, ["m1", "m2"], at=NOON)
    client.close()
    assert (one.kind, one.used, other.ceiling) == ("shop", 0.5, float("inf"))
