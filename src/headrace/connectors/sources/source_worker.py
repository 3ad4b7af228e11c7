"""Copies an external source (NATS, Pulsar) into a stream's raw topic.

    other log ──read after──▶ batch ──▶ raw topic ──delivered──▶ acknowledge ──▶ next batch

A batch is read after the previous one is delivered, so a slow or unavailable log causes backpressure, not memory use.
"""

import logging
import time

import orjson

from headrace.aggregates.sketches.frequent_items import key_text
from headrace.connectors.sources.source_position import (
    BATCH_SIZE,
    CopyMarker,
    SourcePosition,
    marker_to_headers,
    read_position,
)
from headrace.connectors.sources.source_reader import SourceMessage, SourceReader, SourceUnavailable
from headrace.declare.streams.stream import Stream
from headrace.kafka.client.connection_diagnosis import BrokerUnreachable
from headrace.kafka.headers import TOO_LARGE_HEADER, WrittenHeader
from headrace.kafka.producer.producer import DeliveryFailed, Producer
from headrace.kafka.status.reports.connectors import SourceProgress
from headrace.kafka.topics import max_record_bytes
from headrace.kafka.workers.worker_thread import WorkerThread

LOGGER = logging.getLogger("headrace.bridge")
RETRY_SECONDS = 0.5
CHECK_INTERVAL_SECONDS = 1.0
RECORD_OVERHEAD_BYTES = 1024  # of a record's bytes, for its headers and what the log adds
TRUNCATED_BYTES = 1024  # of a message that is too large for our log


class SourceWorker(WorkerThread):
    """Runs one bridge of a stream until it is stopped; waits for an unavailable source or broker."""

    def __init__(self, stream: Stream, reader: SourceReader, broker: str) -> None:
        super().__init__(f"bridge {stream.name}")
        self.copied_count, self.remaining_count, self.error = 0, 0, ""
        self._stream, self._reader, self._broker = stream, reader, broker
        self._check_at = 0.0

    def _work(self) -> None:
        while not self.stop_event.is_set():
            self._copy_until_unavailable()

    def _close(self) -> None:
        self._reader.close()

    def progress(self) -> SourceProgress:
        """Its progress so far."""
        return SourceProgress(
            self._stream.name, time.time_ns() // 1000, self.copied_count, self.remaining_count, self.error
        )

    def _copy_until_unavailable(self) -> None:
        """Copy until the source or the broker is unavailable; the next call continues from the log's position."""
        try:
            self._copy_messages()
        except (SourceUnavailable, DeliveryFailed, BrokerUnreachable) as error:
            if str(error) != self.error:
                LOGGER.warning("%s is waiting: %s", self._stream.name, error)
            self.error = str(error)
            self._reader.close()
            self.stop_event.wait(RETRY_SECONDS)

    def _copy_messages(self) -> None:
        source_id, topic = self._reader.open(), self._stream.name
        position = read_position(self._broker, topic, source_id)
        copied_through = max(position.copied_through, self._reader.acknowledged_number())
        copier = TopicCopier(
            self._stream, source_id, Producer(self._broker, is_gapless=True), max_record_bytes(self._broker, topic)
        )
        LOGGER.info("Copying %s from %s, after message %d", topic, source_id, copied_through)
        while not self.stop_event.is_set():
            batch = self._reader.read(copied_through, BATCH_SIZE)
            self.error = ""
            self.copied_count += copier.send_messages(batch, SourcePosition(copied_through, position.copied_beyond))
            copied_through = batch[-1].number if batch else copied_through
            self._reader.acknowledge(copied_through)
            self._update_remaining()

    def _update_remaining(self) -> None:
        """Update the number of remaining messages every CHECK_INTERVAL_SECONDS."""
        if time.monotonic() >= self._check_at:
            self.remaining_count, self._check_at = (
                self._reader.count_remaining(),
                time.monotonic() + CHECK_INTERVAL_SECONDS,
            )


class TopicCopier:
    """Writes messages into a raw topic unchanged."""

    def __init__(self, stream: Stream, source_id: str, producer: Producer, max_bytes: int) -> None:
        self._stream, self._source_id, self._producer, self._max_bytes = stream, source_id, producer, max_bytes

    def send_messages(self, messages: list[SourceMessage], position: SourcePosition) -> int:
        """Send the messages that the log does not have yet, and wait for their delivery; returns their number."""
        new_messages = [message for message in messages if message.number not in position.copied_beyond]
        for message in new_messages:
            marker_headers = marker_to_headers(self._source_id, CopyMarker(message.number, position.copied_through))
            value, truncation_headers = self._truncate_if_too_large(message)
            headers = [*marker_headers, *truncation_headers, *message.headers]
            self._producer.send(self._stream.name, value, key=self._event_key(value), headers=headers)
        if new_messages:
            self._producer.flush()
        return len(new_messages)

    def _truncate_if_too_large(self, message: SourceMessage) -> tuple[bytes, list[WrittenHeader]]:
        """Truncate a message that is too large for the log, and mark it in a header, so that the gate can reject it."""
        size = len(message.value) + sum(len(name) + len(value) for name, value in message.headers)
        if size + RECORD_OVERHEAD_BYTES <= self._max_bytes:
            return message.value, []
        LOGGER.warning("Truncated message %d of %s, which has %d bytes", message.number, self._stream.name, size)
        return message.value[:TRUNCATED_BYTES], [TOO_LARGE_HEADER.write(size)]

    def _event_key(self, value: bytes) -> str | None:
        """The key that a producer would have sent; None if the message has no readable key."""
        try:
            event = orjson.loads(value)
        except orjson.JSONDecodeError:
            return None
        key = event.get(self._stream.key) if isinstance(event, dict) else None
        return key_text(key) if isinstance(key, str | int) else None
