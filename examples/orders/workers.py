"""A service's consumer: one transaction per message stores its id, the table changes, the new messages and the offset.

message ──▶ BEGIN ─ inbox: duplicate? ─ handler ─ outbox ─ offset ─ COMMIT ──▶ next
                       └ yes: only the offset moves
"""

from collections.abc import Mapping
from typing import Any

import orjson
import psycopg
from confluent_kafka import Consumer, TopicPartition
from messages import EVENTS, Message, message_of
from services import SERVICES, Handler, now
from standing import keep
from steps import Reached

from headrace.kafka.offsets import OffsetClient

NOTE = "INSERT INTO inbox VALUES (%s, %s) ON CONFLICT DO NOTHING"
TELL = "INSERT INTO outbox (id, stream, key, payload) VALUES (%s, %s, %s, %s)"
MOVE = """INSERT INTO positions VALUES (%s, %s, %s, %s)
    ON CONFLICT (service, topic, partition) DO UPDATE SET next_offset = excluded.next_offset"""
PLACES = "SELECT topic, partition, next_offset FROM positions WHERE service = %s"
AT_ONCE = 50

HANDLERS: Mapping[str, Mapping[str, Handler]] = SERVICES | {"standing": dict.fromkeys(EVENTS, keep)}


class Worker:
    """One service: reads both streams from the offsets in its own table, and handles the kinds it has a handler for."""

    def __init__(
        self, service: str, database: psycopg.Connection[Any], broker: str, shop: str, reached: Reached
    ) -> None:
        self._service, self._handlers = service, HANDLERS[service]
        self._database, self._shop, self._reached = database, shop, reached
        topics = [f"{shop}.commands", f"{shop}.events"]
        self._consumer = Consumer({"bootstrap.servers": broker, "group.id": service, "enable.auto.commit": False})
        self._consumer.assign(self._places(OffsetClient(broker), topics))

    def step(self, wait_s: float) -> int:
        """Handle the messages that have arrived; the number of them."""
        messages = [one for one in self._consumer.consume(AT_ONCE, wait_s) if one.error() is None]
        for one in messages:
            self._handle(message_of(orjson.loads(one.value())), (one.topic(), one.partition(), one.offset() + 1))
        return len(messages)

    def close(self) -> None:
        self._consumer.close()

    def _handle(self, message: Message, place: tuple[str, int, int]) -> None:
        handler = self._handlers.get(message.kind)
        if handler is None:
            return
        self._at(message, "taken")
        with self._database.transaction(), self._database.cursor() as cursor:
            is_new = cursor.execute(NOTE, [self._service, message.id]).rowcount == 1
            self._at(message, "noted")
            following = handler(cursor, message) if is_new else []
            self._at(message, "changed")
            for kind in following:
                self._tell(cursor, message.saying(kind, now()))
            self._at(message, "told")
            cursor.execute(MOVE, [self._service, *place])
        self._at(message, "committed")

    def _tell(self, cursor: psycopg.Cursor[Any], message: Message) -> None:
        stream = f"{self._shop}.{'events' if message.kind in EVENTS else 'commands'}"
        payload = orjson.dumps(message.row()).decode()
        cursor.execute(TELL, [message.id, stream, message.order_id, payload])

    def _places(self, offsets: OffsetClient, topics: list[str]) -> list[TopicPartition]:
        starts = {tuple(at): start for at, start in offsets.start_offsets(offsets.require_partitions(topics)).items()}
        stored = {(topic, number): offset for topic, number, offset in self._database.execute(PLACES, [self._service])}
        return [TopicPartition(*at, offset) for at, offset in (starts | stored).items()]

    def _at(self, message: Message, stage: str) -> None:
        self._reached(f"{self._service}.{message.kind}.{stage}")
