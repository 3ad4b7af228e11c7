"""The shop dies at every step, and every order ends: paid and shipped, or cancelled and refunded."""

import random
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from itertools import count
from pathlib import Path

import pytest
from messages import Message, streams
from services import now
from shop import MONEY, Shop, connect, open_shop, welcome
from steps import HANDLED, POINTS, dying_at
from workers import HANDLERS

import headrace as hr
from bench.postgres import OwnPostgres
from headrace.declare.app import load_app
from headrace.embedded_servers.broker import EmbeddedBroker
from tests.waiting import patiently

EXAMPLE = Path(__file__).parents[2] / "examples" / "orders"
LIMIT_S = 60.0


class Crash(BaseException):
    """Nothing after it happens, as if the process were gone."""


def crash() -> None:
    raise Crash


class Street:
    """One shop that crashes and is opened again, and its customers."""

    def __init__(self, broker: str, name: str) -> None:
        self.broker, self.name = broker, name
        self.placed = 0
        self._numbers = count()
        open_shop(broker, name)

    def order_all_kinds(self) -> None:
        """Three orders: a valid one, one whose payment fails, and one for an item that is out of stock."""
        orders, commands = [], streams(self.name)[0]
        for item, amount in (("book", 10.0), ("book", 1000.0), ("unicorn", 20.0)):
            number = next(self._numbers)
            orders.append(Message(f"o-{number}", "place", f"c-{number}", item, amount, now()))
        with connect(self.name) as database:
            welcome(database, orders)
            database.execute("UPDATE stock SET pieces = pieces + 1 WHERE item = 'book'")
        hr.produce(commands, [order.row() for order in orders], broker=self.broker)
        self.placed += len(orders)

    def crash_at(self, number: int) -> None:
        shop = Shop(self.broker, self.name, dying_at(number, crash))
        try:
            with pytest.raises(Crash):
                step_on(shop)
        finally:
            shop.close()

    def end(self) -> Shop:
        shop = Shop(self.broker, self.name)
        deadline = time.monotonic() + patiently(LIMIT_S)
        while not shop.has_ended(self.placed):
            assert time.monotonic() < deadline, shop.statuses()
            shop.step()
        return shop


def step_on(shop: Shop) -> None:
    deadline = time.monotonic() + patiently(LIMIT_S)
    while time.monotonic() < deadline:
        shop.step()


def require_ended_well(shop: Shop, orders: int) -> None:
    """Each order has one of two ends; money and stock add up; the log agrees."""
    ask = shop.database.execute
    ends = ask("""SELECT o.status, p.status, s.order_id IS NOT NULL, count(*) FROM orders o
        LEFT JOIN payments p USING (order_id) LEFT JOIN shipments s USING (order_id) GROUP BY 1, 2, 3""").fetchall()
    assert sum(one[3] for one in ends) == orders
    assert {one[:3] for one in ends} <= {
        ("completed", "paid", True),
        ("cancelled", "refused", False),
        ("cancelled", "refunded", False),
    }
    ((money,),) = ask("SELECT sum(money) FROM wallets").fetchall()
    ((earned,),) = ask("SELECT coalesce(sum(amount), 0) FROM payments WHERE status = 'paid'").fetchall()
    ((customers,),) = ask("SELECT count(*) FROM wallets").fetchall()
    assert money + earned == customers * MONEY
    ((sent,),) = ask("SELECT count(*) FROM shipments").fetchall()
    assert earned == ask("SELECT coalesce(sum(amount), 0) FROM orders WHERE status = 'completed'").fetchall()[0][0]
    assert sent == sum(one[3] for one in ends if one[0] == "completed")
    kept = shop.standing()
    assert {order: one.status for order, one in kept.items()} == shop.statuses()
    assert shop.rebuilt() == kept
    assert len(kept) == orders


@pytest.fixture
def street(broker: EmbeddedBroker, postgres: OwnPostgres, monkeypatch: pytest.MonkeyPatch) -> Iterator[Street]:
    monkeypatch.setenv("PG_URL", postgres.url)
    return Street(broker.address, f"shop{random.getrandbits(40)}")


def test_orders_end_and_the_read_model_is_the_same_from_the_log(street: Street) -> None:
    street.order_all_kinds()
    shop = street.end()
    require_ended_well(shop, 3)
    assert sorted(one.history for one in shop.standing().values()) == [
        ("placed", "paid", "shipped", "completed"),
        ("placed", "paid", "shipping_refused", "refunded", "cancelled"),
        ("placed", "payment_refused", "cancelled"),
    ]
    shop.close()


def test_crashes_at_some_steps_change_no_end(street: Street) -> None:
    some = [*range(0, len(POINTS), 7), POINTS.index("relay.landed")]  # after that one, messages come twice
    for number in some:
        street.order_all_kinds()
        street.crash_at(number)
    shop = street.end()
    require_ended_well(shop, 3 * len(some))
    shop.close()


@pytest.mark.faults
@pytest.mark.timeout(1800)
@pytest.mark.usefixtures("street")
def test_a_kill_at_every_step_changes_no_end(broker: EmbeddedBroker, monkeypatch: pytest.MonkeyPatch) -> None:
    name = f"killed{random.getrandbits(40)}"
    street = Street(broker.address, name)
    command = [sys.executable, str(EXAMPLE / "shop.py"), "--broker", broker.address, "--name", name]
    for number in range(len(POINTS)):
        street.order_all_kinds()
        monkeypatch.setenv("ORDERS_DIE_AT", str(number))
        ran = subprocess.run(command, capture_output=True, timeout=patiently(LIMIT_S), check=False)
        assert ran.returncode == -signal.SIGKILL, (POINTS[number], ran.stderr.decode()[-2000:])
    shop = street.end()
    require_ended_well(shop, 3 * len(POINTS))
    shop.close()


def test_every_step_of_every_service_has_a_number() -> None:
    assert len(set(POINTS)) == len(POINTS)
    for service in ("orders", "payments", "shipping"):
        assert set(HANDLED[service]) == set(HANDLERS[service])


def test_the_shop_is_an_app_of_headrace() -> None:
    app = load_app(str(EXAMPLE / "app.py"))
    assert [stream.name for stream in app.streams] == ["shop.commands", "shop.events"]
    assert [view.name for view in app.views] == ["CustomerOrders"]
