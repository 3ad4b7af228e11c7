"""The whole shop in one process: three services, the read model and the relay; `--demo` places orders and counts them.

    PG_URL=postgres://… python examples/orders/shop.py --broker 127.0.0.1:9092 --demo 20

If the process is killed at any step and restarted, every order still completes or is cancelled and refunded.
"""

import argparse
import os
import random
import time
from collections import Counter
from typing import Any

import psycopg
from messages import Message, streams
from services import TABLES, now
from standing import Standing, rebuilt
from steps import Reached, dying_at, nothing
from workers import HANDLERS, Worker

import headrace as hr
from headrace.connectors.outbox.ddl import outbox_ddl
from headrace.connectors.outbox.outbox_table import OutboxTable
from headrace.connectors.outbox.relay import Relay
from headrace.kafka.topics import ensure_topics

ENDED = ("completed", "cancelled")
ITEMS, PIECES, MONEY = ("book", "lamp", "chair"), 4, 100.0


class Shop:
    """All parts of the shop; `close` stops them at any point."""

    def __init__(self, broker: str, name: str = "shop", reached: Reached = nothing) -> None:
        self.name, self.broker = name, broker
        self.commands, self.events = streams(name)
        self.database = connect(name)
        self._workers = [Worker(service, self.database, broker, name, reached) for service in HANDLERS]
        declared = {stream.name: stream for stream in (self.commands, self.events)}
        table = OutboxTable("env:PG_URL", f"{name}.outbox")
        self._relay = Relay(table, broker, declared, on_step=lambda step: reached(f"relay.{step}"))

    def step(self) -> int:
        """Relay the rows of the outbox, then handle new messages; the number of both."""
        return self._relay.relay_batch() + sum(worker.step(0.01) for worker in self._workers)

    def place(self, orders: list[Message]) -> None:
        """Send commands to place orders; raises an error unless all of them are in the log."""
        hr.produce(self.commands, [order.row() for order in orders], broker=self.broker)

    def statuses(self) -> dict[str, str]:
        return dict(self.database.execute("SELECT order_id, status FROM orders").fetchall())

    def standing(self) -> dict[str, Standing]:
        """The read model as stored in the database."""
        rows = self.database.execute("SELECT order_id, customer, amount, status, history FROM standing")
        return {
            order: Standing(customer, amount, status, tuple(kinds)) for order, customer, amount, status, kinds in rows
        }

    def rebuilt(self) -> dict[str, Standing]:
        """The read model, rebuilt from the log alone."""
        return rebuilt(self.broker, self.events.name)

    def has_ended(self, orders: int) -> bool:
        """Whether at least `orders` orders have ended in the read model."""
        ended = [one for one in self.standing().values() if one.status in ENDED]
        return len(ended) >= orders

    def close(self) -> None:
        for worker in self._workers:
            worker.close()
        self._relay.close()
        self.database.close()


def connect(name: str) -> psycopg.Connection[Any]:
    return psycopg.connect(os.environ["PG_URL"], autocommit=True, options=f"-c search_path={name}")


def open_shop(broker: str, name: str = "shop") -> None:
    """Create tables and topics that do not exist yet."""
    ensure_topics(broker, list(streams(name)))
    with connect(name) as database, database.transaction():
        if database.execute("SELECT to_regnamespace(%s)", [name]).fetchone() != (None,):
            return
        database.execute(f'CREATE SCHEMA "{name}"')
        database.execute(TABLES + outbox_ddl(f"{name}.outbox"))
        database.cursor().executemany("INSERT INTO stock VALUES (%s, %s)", [(item, PIECES) for item in ITEMS])


def order(number: int, dice: random.Random) -> Message:
    """A random order; some cost more than any customer has."""
    amount = dice.choice((10.0, 20.0, 1000.0))
    return Message(f"o-{number}", "place", f"customer-{number}", dice.choice(ITEMS), amount, now())


def welcome(database: psycopg.Connection[Any], orders: list[Message]) -> None:
    """Give each new customer some money."""
    known = [(one.customer, MONEY) for one in orders]
    database.cursor().executemany("INSERT INTO wallets VALUES (%s, %s) ON CONFLICT DO NOTHING", known)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--broker", default="127.0.0.1:9092")
    parser.add_argument("--name", default="shop")
    parser.add_argument("--demo", type=int, default=0, metavar="ORDERS", help="place this many orders, then exit")
    options = parser.parse_args()
    open_shop(options.broker, options.name)
    point = os.environ.get("ORDERS_DIE_AT")
    shop = Shop(options.broker, options.name, nothing if point is None else dying_at(int(point)))
    first = len(shop.statuses())
    dice = random.Random(first)
    orders = [order(number, dice) for number in range(first, first + options.demo)]
    welcome(shop.database, orders)
    shop.place(orders)
    while not options.demo or not shop.has_ended(first + options.demo):
        shop.step() or time.sleep(0.02)
    standing = shop.standing()
    print(f"{len(standing)} orders:", dict(Counter(one.status for one in standing.values())))
    print("rebuilt from the log it is", "the same" if shop.rebuilt() == standing else "ANOTHER")
    shop.close()


if __name__ == "__main__":
    main()
