"""Rows that their target refuses, put where they are not lost: with the reason, and the place they had."""

from headrace.connectors.sinks.sink_rows import SinkRow
from headrace.declare.sinks.sink import Sink
from headrace.errors import HeadraceError
from headrace.kafka.dead_letter_queue import ORIGIN_HEADER
from headrace.kafka.ledger import ARRIVAL_HEADER, OFFSET_HEADER, PARTITION_HEADER, REASON_HEADER, TOPIC_HEADER
from headrace.kafka.producer.producer import DeliveryFailed, Producer


class ParkingFailed(HeadraceError):
    """A row that could not be put away: it stays in hand."""


class ParkedRowWriter:
    """Writes to SINK.parked; a row that is parked twice has one place, so it is one letter."""

    def __init__(self, broker: str, sink: Sink) -> None:
        self._sink, self._producer = sink, Producer(broker)

    def park_row(self, row: SinkRow, reason: str) -> None:
        """In the log when this returns."""
        record = row.record
        arrival = record.header(ARRIVAL_HEADER) or str(record.appended_us).encode()
        headers: list[tuple[str, str | bytes]] = [
            (OFFSET_HEADER, str(record.offset)),
            (ARRIVAL_HEADER, arrival),
            (REASON_HEADER, reason),
            (TOPIC_HEADER, record.topic),
            (PARTITION_HEADER, str(record.partition)),
            (ORIGIN_HEADER, row.location),
        ]
        self._producer.send(
            self._sink.parked, record.value, key=record.key, partition=record.partition, headers=headers
        )
        try:
            self._producer.flush()
        except DeliveryFailed as failure:
            raise ParkingFailed(f"{self._sink.name}: {row.location} cannot be parked: {failure}") from failure
