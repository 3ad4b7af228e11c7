"""Parks rows that the target rejects: writes each with the reason and its original location to a Kafka topic."""

from headrace.connectors.sinks.sink_rows import SinkRow
from headrace.declare.sinks.sink import Sink
from headrace.errors import HeadraceError
from headrace.kafka.headers import ARRIVAL_HEADER, ORIGIN_HEADER, dead_letter_headers
from headrace.kafka.producer.producer import DeliveryFailed, Producer
from headrace.kafka.record import Partition


class ParkingFailed(HeadraceError):
    """A row could not be parked; its batch is retried."""


class ParkedRowWriter:
    """Writes to SINK.parked; a row that is parked twice has one location, so it is one dead letter."""

    def __init__(self, broker: str, sink: Sink) -> None:
        self._sink, self._producer = sink, Producer(broker)

    def park_row(self, row: SinkRow, reason: str) -> None:
        """Write a row with its reason; it is in Kafka when this returns."""
        record = row.record
        partition, arrival_us = (
            Partition(record.topic, record.partition),
            ARRIVAL_HEADER.read_or(record, record.appended_us),
        )
        headers = [
            *dead_letter_headers(partition, record.offset, arrival_us, reason),
            ORIGIN_HEADER.write(row.location),
        ]
        self._producer.send(
            self._sink.parked, record.value, key=record.key, partition=record.partition, headers=headers
        )
        try:
            self._producer.flush()
        except DeliveryFailed as failure:
            raise ParkingFailed(f"{self._sink.name}: {row.location} cannot be parked: {failure}") from failure
