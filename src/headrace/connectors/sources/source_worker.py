"""Copies one log into a stream's raw topic.

    other log ──read after──▶ batch ──▶ raw topic ──there──▶ acknowledge ──▶ next batch

Nothing is read before what was read is in our log, so a log that is slow or away holds the other one back, not memory.
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
TRUNCATED_BYTES = 1024  # of a message that our log does not take


class SourceWorker(WorkerThread):
    """One stream's bridge, until it is stopped; whoever is away is waited for."""

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
        """What it has done so far."""
        return SourceProgress(
            self._stream.name, time.time_ns() // 1000, self.copied_count, self.remaining_count, self.error
        )

    def _copy_until_unavailable(self) -> None:
        """Copy until something is away; then begin again from what the log has."""
        try:
            self._copy_messages()
        except (SourceUnavailable, DeliveryFailed, BrokerUnreachable) as error:
            if str(error) != self.error:
                LOGGER.warning("%s waits: %s", self._stream.name, error)
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
        LOGGER.info("%s comes from %s, after %d", topic, source_id, copied_through)
        while not self.stop_event.is_set():
            batch = self._reader.read(copied_through, BATCH_SIZE)
            self.error = ""
            self.copied_count += copier.send_messages(batch, SourcePosition(copied_through, position.copied_beyond))
            copied_through = batch[-1].number if batch else copied_through
            self._reader.acknowledge(copied_through)
            self._update_remaining()

    def _update_remaining(self) -> None:
        """See now and then how much is left."""
        if time.monotonic() >= self._check_at:
            self.remaining_count, self._check_at = (
                self._reader.count_remaining(),
                time.monotonic() + CHECK_INTERVAL_SECONDS,
            )


class TopicCopier:
    """Writes messages into a raw topic as they are."""

    def __init__(self, stream: Stream, source_id: str, producer: Producer, max_bytes: int) -> None:
        self._stream, self._source_id, self._producer, self._max_bytes = stream, source_id, producer, max_bytes

    def send_messages(self, messages: list[SourceMessage], position: SourcePosition) -> int:
        """Send what the log does not have yet, and wait until it has; how many that were."""
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
        """A message that the log would not take is there by its beginning: the gate judges it, and nothing is lost."""
        size = len(message.value) + sum(len(name) + len(value) for name, value in message.headers)
        if size + RECORD_OVERHEAD_BYTES <= self._max_bytes:
            return message.value, []
        LOGGER.warning("%s: message %d has %d bytes: it is cut", self._stream.name, message.number, size)
        return message.value[:TRUNCATED_BYTES], [TOO_LARGE_HEADER.write(size)]

    def _event_key(self, value: bytes) -> str | None:
        """The key a producer would have sent along; None where there is none to be read."""
        try:
            event = orjson.loads(value)
        except orjson.JSONDecodeError:
            return None
        key = event.get(self._stream.key) if isinstance(event, dict) else None
        return key_text(key) if isinstance(key, str | int) else None
