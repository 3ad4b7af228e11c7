"""A whole app over a captured table serves what the database has, also after every process was killed."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from bench.postgres import OwnPostgres
from tests.connectors.cdc.shop_writer import (
    COUNTRIES,
    Shop,
    countries_of,
    every_key,
    made_shop,
    moves_of,
    shown_table,
    table_of,
)
from tests.running import Running
from tests.servers import own_postgres
from tests.waiting import wait_until

APP = Path(__file__).with_name("shop_app.py")
CHANGES, KILLED_CHANGES, KILLS = 300, 10_000, 5
PAUSE_S = 0.02  # so that kills come while something is under way


@pytest.fixture
def shop_database(monkeypatch: pytest.MonkeyPatch) -> Iterator[OwnPostgres]:
    with own_postgres(is_captured=True) as server:
        monkeypatch.setenv("SHOP_DB", server.url)
        made_shop(server)
        yield server


@pytest.mark.faults
@pytest.mark.timeout(600)
def test_a_table_its_rows_and_its_changes_are_served_as_the_database_has_them(
    shop_database: OwnPostgres, tmp_path: Path
) -> None:
    with Running(APP, tmp_path / "state", "--lake", "off") as running:
        assert_same(running, shop_database, limit_s=240)  # the history has nothing of what was before the snapshot
        Shop(shop_database).write(CHANGES)
        assert_same(running, shop_database, limit_s=150)


@pytest.mark.faults
@pytest.mark.timeout(900)
def test_it_is_so_while_connect_postgres_and_spark_are_killed(shop_database: OwnPostgres, tmp_path: Path) -> None:
    every = KILLED_CHANGES // (3 * KILLS)
    due = [(number + 1) * every - every // 2 for number in range(3 * KILLS)]
    killed: list[str] = []

    def kill(changes: int) -> None:
        if not due or changes < due[0]:
            return
        due.pop(0)
        whom = ("debezium", "postgres", "spark", "debezium", "postgres", "operate")[len(killed) % 6]
        if whom == "postgres":
            shop_database.kill()
            shop_database.start()
        else:
            running.kill(whom)
        killed.append(whom)

    with Running(APP, tmp_path / "state", "--lake", "off", "--checkpoint", "10s") as running:
        assert_same(running, shop_database, limit_s=240)  # the history has nothing of what was before the snapshot
        Shop(shop_database, PAUSE_S).write(KILLED_CHANGES, kill)
        assert len(killed) == 3 * KILLS
        assert_same(running, shop_database, limit_s=300)


def assert_same(running: Running, postgres: OwnPostgres, limit_s: float) -> None:
    """Wait until all served values equal the database's; fails with the differences."""

    def said() -> str:
        return f"{differences(running, postgres)}\n{running.said()}"

    wait_until(lambda: not differences(running, postgres), limit_s, "the answers to be the database's", said)
    assert running.events("customers")["dead"] == 0


def differences(running: Running, postgres: OwnPostgres) -> list[Any]:
    """Some keys whose served values differ from the database's, with both; or why they cannot be compared."""
    try:
        if not running.ready():
            return ["not ready"]
        rows = table_of(postgres)
        found = [
            (shown_table(running.features("Customer", every_key())), rows),
            (_values(running, "Countries", "country", COUNTRIES), countries_of(rows)),
            (_values(running, "Moves", "id", every_key()), moves_of(postgres)),
        ]
    except (OSError, AssertionError) as passing:
        return [passing]
    return [
        (key, shown.get(key), real.get(key))
        for shown, real in found
        for key in [key for key in shown | real if shown.get(key) != real.get(key)][:3]
    ]


def _values(running: Running, view: str, key: str, keys: Any) -> dict[Any, dict[str, Any]]:
    return {row[key]: row["values"] for row in running.features(view, keys)}
