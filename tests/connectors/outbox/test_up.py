"""`headrace up` with an outbox: a committed row counts once, also if the relay dies before it deletes the row."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import psycopg
import pytest

from bench.postgres import OwnPostgres
from headrace.connectors.outbox.ddl import outbox_ddl
from headrace.kafka.offsets import OffsetClient
from tests.connectors.outbox.outbox_service import KEYS, Shop, Writing
from tests.running import Running
from tests.waiting import wait_until

APP = Path(__file__).with_name("shop_app.py")
LIMIT_S = 120
HOLD = "SELECT pg_advisory_lock(1)"
HELD_UP = """CREATE FUNCTION held_up() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
        PERFORM pg_advisory_xact_lock(1); RETURN OLD; END $$;
    CREATE TRIGGER held_up BEFORE DELETE ON shop_outbox FOR EACH ROW EXECUTE FUNCTION held_up()"""

POISON = """INSERT INTO shop_outbox (stream, key, payload) VALUES ('shop.changes', 'a1',
    '{"id": "poison", "account": "a1", "version": "two", "at": "2026-01-01T00:00:00Z"}')"""


@contextmanager
def removal_held_up(postgres: OwnPostgres) -> Iterator[None]:
    """Rows can be read, and not be removed."""
    with psycopg.connect(postgres.url, autocommit=True) as connection:
        connection.execute(HOLD)
        yield


def committed(shop: Shop) -> dict[str, tuple[int, int]]:
    """The same as they were committed: each is a version higher."""
    return {account: (version, version) for account, version in shop.versions().items() if version}


def counted(running: Running) -> dict[str, tuple[int, int]]:
    """How many changes are counted of each account that has any, and which is the newest."""
    rows = running.features("Accounts", [f"a{number}" for number in range(KEYS)])
    found = {row["account"]: (row["values"]["changes_1d"], row["values"]["newest_1d"]) for row in rows}
    return {account: one for account, one in found.items() if one[0]}


def arrived(shop: Shop) -> int:
    return sum(OffsetClient(shop.broker).topic_end_offsets([shop.stream.name]).values())


def told(running: Running) -> dict[str, float]:
    """The metrics of the outbox and of duplicate events."""
    names = {
        ("headrace_outbox_rows_total", 'fate="sent",outbox="shop_outbox"'): "sent",
        ("headrace_outbox_rows_total", 'fate="parked",outbox="shop_outbox"'): "parked",
        ("headrace_outbox_parked_total", 'outbox="shop_outbox",reason="wrong-type"'): "wrong-type",
        ("headrace_outbox_retries_total", 'outbox="shop_outbox"'): "retries",
        ("headrace_outbox_waited_seconds", 'outbox="shop_outbox"'): "waited",
        ("headrace_duplicates_total", 'stream="shop.changes"'): "again",
    }
    return {names[of]: value for of, value in running.metrics().items() if of in names}


@pytest.mark.faults
@pytest.mark.timeout(600)
def test_what_was_committed_is_counted_once_also_where_the_relay_died_before_it_removed(
    postgres: OwnPostgres, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PG_URL", postgres.url)
    postgres.ask(outbox_ddl("shop_outbox"))
    with Running(APP, tmp_path / "state", "--lake", "off", "--checkpoint", "10s") as running:
        running.wait_until_ready()
        shop = Shop(postgres, running.broker, "shop")

        def said() -> str:
            return f"{committed(shop)}\n{counted(running)}\n{told(running)}\n{running.said()}"

        Writing(shop, 300).finish()
        wait_until(lambda: counted(running) == committed(shop), LIMIT_S, "every change, once", said)
        sent = sum(shop.versions().values())
        wait_until(lambda: told(running).get("sent") == sent, LIMIT_S, f"{sent} rows to be told of", running.said)
        assert told(running)["again"] == 0

        postgres.ask(HELD_UP)
        with removal_held_up(postgres):
            Writing(shop, 30, seed=2).finish()
            wait_until(lambda: arrived(shop) > sent, LIMIT_S, "rows to be sent, and not removed")
            running.kill("outbox")
        postgres.ask(POISON)
        wait_until(lambda: shop.left() == 1, LIMIT_S, "all but the poison to go", running.said)
        wait_until(lambda: counted(running) == committed(shop), LIMIT_S, "every change, once", said)
        again = shop.require_told_once()
        assert again > 0
        wanted = {"sent": sum(shop.versions().values()), "parked": 1, "wrong-type": 1, "again": again}
        wanted |= {"retries": 0, "waited": 0}
        wait_until(lambda: told(running).items() >= wanted.items(), LIMIT_S, f"{wanted}", lambda: f"{told(running)}")
