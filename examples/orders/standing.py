"""The read model: the status of each order, derived from events alone. It can be deleted and rebuilt from the log.

shop.events ──▶ fold, one event after the other ──▶ standing     updated while the services run
     └───────▶ the same fold from the first event on ──▶ the same rows, at any time
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
    """The status of an order, and the events that led to it."""

    customer: str
    amount: float
    status: str
    history: tuple[str, ...]


def fold(before: Standing | None, event: Message) -> Standing:
    """The status of an order after one more event."""
    history = () if before is None else before.history
    return Standing(event.customer, event.amount, event.kind, (*history, event.kind))


def keep(cursor: Cursor, event: Message) -> list[str]:
    """Fold an event into the table; it causes no further message."""
    row = cursor.execute(READ, [event.order_id]).fetchone()
    before = None if row is None else Standing(*row[:3], tuple(row[3]))
    after = fold(before, event)
    cursor.execute(WRITE, [event.order_id, after.customer, after.amount, after.status, list(after.history)])
    return []


def rebuilt(broker: str, topic: str) -> dict[str, Standing]:
    """The status of every order, from the first event of the log on; duplicates count once."""
    ends = OffsetClient(broker).topic_end_offsets([topic])
    records = read_offset_range(broker, OffsetClient(broker).start_offsets(ends), ends)
    return folded(message_of(orjson.loads(record.value or b"")) for record in records)


def folded(events: Iterable[Message]) -> dict[str, Standing]:
    """The status of each order after some events."""
    standing: dict[str, Standing] = {}
    seen: set[str] = set()
    for event in events:
        if event.id not in seen:
            seen.add(event.id)
            standing[event.order_id] = fold(standing.get(event.order_id), event)
    return standing
