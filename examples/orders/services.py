"""Three services, each with its own tables. A handler updates its tables and returns the next messages; its caller
commits the transaction.

            place ─▶ orders ──pay──▶ payments ──paid──▶ orders ──ship──▶ shipping ──shipped──▶ orders: completed
                        ▲                │                  ▲               │
                        └─payment_refused┘                  └shipping_refused┘
                        │ cancelled                         │ refund ─▶ payments ──refunded──▶ orders: cancelled

The orders service runs the saga: it refunds an order that is paid but cannot be shipped, and cancels it after that.
"""

from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

import psycopg
from messages import Message

TABLES = """
CREATE TABLE orders (order_id text PRIMARY KEY, customer text, item text, amount float8, status text NOT NULL);
CREATE TABLE payments (order_id text PRIMARY KEY, amount float8 NOT NULL, status text NOT NULL);
CREATE TABLE wallets (customer text PRIMARY KEY, money float8 NOT NULL CHECK (money >= 0));
CREATE TABLE stock (item text PRIMARY KEY, pieces int NOT NULL CHECK (pieces >= 0));
CREATE TABLE shipments (order_id text PRIMARY KEY, item text NOT NULL);
CREATE TABLE standing (order_id text PRIMARY KEY, customer text, amount float8, status text, history text[]);
CREATE TABLE inbox (service text, id text, PRIMARY KEY (service, id));
CREATE TABLE positions (service text, topic text, partition int, next_offset bigint NOT NULL,
                        PRIMARY KEY (service, topic, partition));
"""

Cursor = psycopg.Cursor[Any]
Handler = Callable[[Cursor, Message], list[str]]


def set_order(cursor: Cursor, message: Message, status: str) -> None:
    cursor.execute("UPDATE orders SET status = %s WHERE order_id = %s", [status, message.order_id])


def place(cursor: Cursor, message: Message) -> list[str]:
    columns = [message.order_id, message.customer, message.item, message.amount]
    cursor.execute("INSERT INTO orders VALUES (%s, %s, %s, %s, 'placed')", columns)
    return ["placed", "pay"]


def paid(cursor: Cursor, message: Message) -> list[str]:
    set_order(cursor, message, "paid")
    return ["ship"]


def payment_refused(cursor: Cursor, message: Message) -> list[str]:
    set_order(cursor, message, "cancelled")
    return ["cancelled"]


def shipped(cursor: Cursor, message: Message) -> list[str]:
    set_order(cursor, message, "completed")
    return ["completed"]


def shipping_refused(cursor: Cursor, message: Message) -> list[str]:
    """The compensating action of the saga: a separate command undoes the payment."""
    set_order(cursor, message, "refunding")
    return ["refund"]


def refunded(cursor: Cursor, message: Message) -> list[str]:
    set_order(cursor, message, "cancelled")
    return ["cancelled"]


def pay(cursor: Cursor, message: Message) -> list[str]:
    take = "UPDATE wallets SET money = money - %s WHERE customer = %s AND money >= %s"
    is_taken = cursor.execute(take, [message.amount, message.customer, message.amount]).rowcount == 1
    status = "paid" if is_taken else "refused"
    cursor.execute("INSERT INTO payments VALUES (%s, %s, %s)", [message.order_id, message.amount, status])
    return ["paid" if is_taken else "payment_refused"]


def refund(cursor: Cursor, message: Message) -> list[str]:
    cursor.execute("UPDATE payments SET status = 'refunded' WHERE order_id = %s", [message.order_id])
    give = "UPDATE wallets SET money = money + %s WHERE customer = %s"
    cursor.execute(give, [message.amount, message.customer])
    return ["refunded"]


def ship(cursor: Cursor, message: Message) -> list[str]:
    take = "UPDATE stock SET pieces = pieces - 1 WHERE item = %s AND pieces > 0"
    if cursor.execute(take, [message.item]).rowcount == 0:
        return ["shipping_refused"]
    cursor.execute("INSERT INTO shipments VALUES (%s, %s)", [message.order_id, message.item])
    return ["shipped"]


SERVICES: dict[str, dict[str, Handler]] = {
    "orders": {
        "place": place,
        "paid": paid,
        "payment_refused": payment_refused,
        "shipped": shipped,
        "shipping_refused": shipping_refused,
        "refunded": refunded,
    },
    "payments": {"pay": pay, "refund": refund},
    "shipping": {"ship": ship},
}


def now() -> datetime:
    return datetime.now(UTC)
