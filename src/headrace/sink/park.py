"""Rows that their target refuses, put where they are not lost: with the reason, and the place they had."""

from headrace.declare.sink import Sink
from headrace.errors import HeadraceError
from headrace.log.ledger import ARRIVAL, OFFSET, PARTITION, REASON, TOPIC
from headrace.log.letters import ORIGIN
from headrace.log.produce import NotDelivered, Producer
from headrace.sink.rows import Row


class NotParked(HeadraceError):
    """A row that could not be put away: it stays in hand."""


class Parking:
    """Writes to SINK.parked; a row that is parked twice has one place, so it is one letter."""

    def __init__(self, broker: str, sink: Sink) -> None:
        self._sink, self._producer = sink, Producer(broker)

    def park(self, row: Row, reason: str) -> None:
        """In the log when this returns."""
        record = row.record
        arrival = record.header(ARRIVAL) or str(record.appended_us).encode()
        headers: list[tuple[str, str | bytes]] = [
            (OFFSET, str(record.offset)),
            (ARRIVAL, arrival),
            (REASON, reason),
            (TOPIC, record.topic),
            (PARTITION, str(record.partition)),
            (ORIGIN, row.place),
        ]
        self._producer.send(
            self._sink.parked, record.value, key=record.key, partition=record.partition, headers=headers
        )
        try:
            self._producer.flush()
        except NotDelivered as failure:
            raise NotParked(f"{self._sink.name}: {row.place} cannot be parked: {failure}") from failure
