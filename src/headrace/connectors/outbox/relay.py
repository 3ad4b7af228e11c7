"""The relay: reads rows in order, sends them, awaits their delivery, and only then deletes them.

own the table ──▶ read ──▶ park what is poison ──▶ send ──▶ in the log ──▶ remove
     1              2              3                 4          5            6
                                                     └── a crash here: sent again, with the same id ──┘

A sequence number is drawn before its transaction commits, so "greater than the last" would skip rows that commit late.
Here a row is pending as long as it exists: a row that commits late is sent late, and none is skipped.
"""

import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence

from headrace.connectors.outbox.outbox_events import (
    TOPIC_PATTERN,
    InvalidOutboxRowError,
    OutboxEvent,
    OutboxEventEncoder,
)
from headrace.connectors.outbox.outbox_table import OutboxTable, PendingOutboxRow
from headrace.connectors.sinks.writer import TargetUnavailable
from headrace.declare.streams.stream import Stream
from headrace.kafka.consumers.tailing_consumer import SHORT_REQUEST_TIMEOUT_SECONDS
from headrace.kafka.ledger import reason_code
from headrace.kafka.offsets import OffsetClient
from headrace.kafka.producer.producer import DeliveryFailed, Producer
from headrace.kafka.topics import max_record_bytes

BATCH_SIZE = 500
CHECK_INTERVAL_SECONDS = 5.0
STEPS = ("owned", "read", "parked", "sent", "landed", "removed")

StepCallback = Callable[[str], None]


class Relay:
    """Sends the rows of one table to Kafka; calls `on_step` with each of STEPS."""

    def __init__(
        self,
        table: OutboxTable,
        broker: str,
        streams: Mapping[str, Stream] | None = None,
        *,
        batch_size: int = BATCH_SIZE,
        on_step: StepCallback = lambda _: None,
    ) -> None:
        self.fate_counts: Counter[str] = Counter()
        self.reason_counts: Counter[str] = Counter()
        self.oldest_waited_s = 0.0
        self._table, self._broker, self._batch_size, self._on_step = table, broker, batch_size, on_step
        self._event_encoder = OutboxEventEncoder(streams or {})
        self._topic_availability = TopicAvailability(broker)
        self._producer: Producer | None = None

    @property
    def missing_topics(self) -> list[str]:
        """The missing topics that rows wait for."""
        return sorted(self._topic_availability.missing_topics)

    def relay_batch(self) -> int:
        """Send or park one batch of pending rows; returns the number of rows."""
        self._table.require_lock()
        self._on_step("owned")
        rows = self._topic_availability.filter_sendable_rows(
            self._table.read_pending(self._batch_size, self._topic_availability.recheck_missing())
        )
        self.oldest_waited_s = max(0.0, rows[0].waited_s) if rows else 0.0
        self._on_step("read")
        outbox_events, park_reasons = self._encode_rows(rows)
        if park_reasons:
            self._table.park_rows(park_reasons)
        self._on_step("parked")
        if outbox_events:
            self._send_events(outbox_events)
            self._table.delete_rows([outbox_event.row.seq for outbox_event in outbox_events])
        self._on_step("removed")
        self.fate_counts.update({"sent": len(outbox_events), "parked": len(park_reasons)})
        self.reason_counts.update(map(reason_code, park_reasons.values()))
        return len(rows)

    def close(self) -> None:
        self._table.close()
        self._producer = None

    def _encode_rows(self, rows: Sequence[PendingOutboxRow]) -> tuple[list[OutboxEvent], dict[int, str]]:
        """The rows that can be sent, and the reasons for the rest."""
        outbox_events: list[OutboxEvent] = []
        park_reasons: dict[int, str] = {}
        for row in rows:
            try:
                outbox_events.append(
                    self._event_encoder.encode_row(row, self._topic_availability.get_max_bytes(row.stream))
                )
            except InvalidOutboxRowError as error:
                park_reasons[row.seq] = str(error)
        return outbox_events, park_reasons

    def _send_events(self, outbox_events: Sequence[OutboxEvent]) -> None:
        """Send in order and without gaps: after a failed delivery the producer is replaced, and the rows stay."""
        producer = self._producer = self._producer or Producer(self._broker, linger_ms=2, is_gapless=True)
        try:
            for outbox_event in outbox_events:
                producer.send(
                    outbox_event.row.stream, outbox_event.value, key=outbox_event.row.key, headers=outbox_event.headers
                )
            self._on_step("sent")
            producer.flush()
        except DeliveryFailed as failure:
            self._producer, self._topic_availability = None, TopicAvailability(self._broker)
            raise TargetUnavailable(f"{self._table.name}: {failure}") from failure
        self._on_step("landed")


class TopicAvailability:
    """Which topics exist, and the record size each accepts; missing ones are looked up again every few seconds."""

    def __init__(self, broker: str) -> None:
        self.missing_topics: set[str] = set()
        self._broker, self._max_bytes_by_topic = broker, dict[str, int]()
        self._check_at = 0.0

    def recheck_missing(self) -> set[str]:
        """The topics that were missing at the last look-up; none once they are due to be looked up again."""
        if self.missing_topics and time.monotonic() >= self._check_at:
            self.missing_topics = set()
        return self.missing_topics

    def filter_sendable_rows(self, rows: Sequence[PendingOutboxRow]) -> list[PendingOutboxRow]:
        """The rows whose topic exists or has an invalid name; rows of a missing topic stay, and delay no others."""
        unknown_topics = {
            row.stream for row in rows if TOPIC_PATTERN.fullmatch(row.stream)
        } - self._max_bytes_by_topic.keys()
        if unknown_topics:
            existing_topics = {
                partition.topic
                for partition in OffsetClient(self._broker, SHORT_REQUEST_TIMEOUT_SECONDS).list_partitions(
                    unknown_topics
                )
            }
            self._max_bytes_by_topic |= {name: max_record_bytes(self._broker, name) for name in existing_topics}
            if unknown_topics - existing_topics:
                self.missing_topics |= unknown_topics - existing_topics
                self._check_at = time.monotonic() + CHECK_INTERVAL_SECONDS
        return [row for row in rows if row.stream not in self.missing_topics]

    def get_max_bytes(self, topic: str) -> int:
        return self._max_bytes_by_topic.get(topic, 0)
