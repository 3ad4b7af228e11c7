"""The read model: how each order stands, made of events alone. It can be thrown away: the log makes it again.

shop.events ──▶ fold, one event after the other ──▶ standing     kept beside the services
     └───────▶ the same fold from the first event on ──▶ the same, whenever it is wanted
"""

from collections.abc import Iterable
from typing import NamedTuple

import orjson
from messages import Message, message_of
from services import Cursor

from headrace.kafka.consumers.offset_range import read_offset_range
from headrace.kafka.offsets import OffsetClient

READ = "SELECT customer, amount, status, history FROM standing WHERE order_id = %s"
WRITE = """INSERT INTO standing VALUES (%s, %s, %s, %s, %s)
    ON CONFLICT (order_id) DO UPDATE SET status = excluded.status, history = excluded.history"""


class Standing(NamedTuple):
    """How an order stands, and the events that brought it there."""

    customer: str
    amount: float
    status: str
    history: tuple[str, ...]


def fold(before: Standing | None, event: Message) -> Standing:
    """How an order stands after one more event."""
    history = () if before is None else before.history
    return Standing(event.customer, event.amount, event.kind, (*history, event.kind))


def keep(cursor: Cursor, event: Message) -> list[str]:
    """Fold an event into the table; nothing follows from it."""
    found = cursor.execute(READ, [event.order_id]).fetchone()
    before = None if found is None else Standing(*found[:3], tuple(found[3]))
    after = fold(before, event)
    cursor.execute(WRITE, [event.order_id, after.customer, after.amount, after.status, list(after.history)])
    return []


def rebuilt(broker: str, topic: str) -> dict[str, Standing]:
    """How every order stands by the log, from its first event on; what was sent twice counts once."""
    ends = OffsetClient(broker).topic_end_offsets([topic])
    records = read_offset_range(broker, OffsetClient(broker).start_offsets(ends), ends)
    return folded(message_of(orjson.loads(record.value or b"")) for record in records)


def folded(events: Iterable[Message]) -> dict[str, Standing]:
    """How orders stand after some events."""
    standing: dict[str, Standing] = {}
    seen: set[str] = set()
    for event in events:
        if event.id not in seen:
            seen.add(event.id)
            standing[event.order_id] = fold(standing.get(event.order_id), event)
    return standing
