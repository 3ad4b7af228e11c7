"""The messages between the services of a shop: a command requests an action, an event reports that it happened."""

from datetime import datetime
from typing import Any, NamedTuple

import headrace as hr

SCHEMA = "id string, order_id string, kind string, customer string, item string, amount double, at timestamp"
COMMANDS = ("place", "pay", "ship", "refund")
EVENTS = ("placed", "paid", "payment_refused", "shipped", "shipping_refused", "refunded", "completed", "cancelled")


class Message(NamedTuple):
    """A command or an event of one order; an order has one message of each kind, so order and kind are its id."""

    order_id: str
    kind: str
    customer: str
    item: str
    amount: float
    at: datetime

    @property
    def id(self) -> str:
        return f"{self.order_id}/{self.kind}"

    def saying(self, kind: str, at: datetime) -> "Message":
        """Another message of the same order."""
        return self._replace(kind=kind, at=at)

    def row(self) -> dict[str, Any]:
        """The message as a row of its stream."""
        return {"id": self.id, **self._asdict(), "at": self.at.isoformat()}


def message_of(row: dict[str, Any]) -> Message:
    """The message of a row."""
    columns = {name: row[name] for name in Message._fields}
    return Message(**columns | {"at": datetime.fromisoformat(row["at"])})


def streams(shop: str = "shop") -> tuple[hr.Stream, hr.Stream]:
    """The streams of a shop's commands and of its events; each keeps the messages of one order in order."""
    commands, events = (
        hr.Stream(
            f"{shop}.{what}",
            schema=SCHEMA,
            id="id",
            key="order_id",
            time="at",
            check=f"kind in ({', '.join(map(repr, kinds))})",
        )
        for what, kinds in (("commands", COMMANDS), ("events", EVENTS))
    )
    return commands, events
