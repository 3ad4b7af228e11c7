"""Copies one log into a stream's raw topic.

    other log ──read after──▶ batch ──▶ raw topic ──there──▶ acknowledge ──▶ next batch

Nothing is read before what was read is in our log, so a log that is slow or away holds the other one back, not memory.
"""

import logging
import threading
import time

import orjson

from headrace.bridge.position import BATCH, Place, Position, headers_of, position_in
from headrace.bridge.reader import Arrived, Away, Reader
from headrace.declare.stream import Stream
from headrace.log.produce import NotDelivered, Producer
from headrace.log.progress import BridgeProgress
from headrace.log.strangers import BrokerUnreachable
from headrace.log.topics import largest_record
from headrace.tiles.frequent import key_text

LOGGER = logging.getLogger("headrace.bridge")
RETRY_SECONDS = 0.5
LOOK_SECONDS = 1.0
ROOM = 1024  # of a record's bytes, for its headers and what the log adds
SHOWN = 1024  # of a message that our log does not take
TOO_LARGE = "headrace.too-large"


class Bridging(threading.Thread):
    """One stream's bridge, until it is stopped; whoever is away is waited for."""

    def __init__(self, stream: Stream, reader: Reader, broker: str) -> None:
        super().__init__(name=f"bridge {stream.name}", daemon=True)
        self.copied, self.left, self.trouble = 0, 0, ""
        self.failure: BaseException | None = None
        self._stream, self._reader, self._broker = stream, reader, broker
        self._stopping = threading.Event()
        self._look_at = 0.0

    def run(self) -> None:
        try:
            while not self._stopping.is_set():
                self._try()
        except Exception as failure:  # noqa: BLE001 - nobody is above a thread: whoever watches is told
            self.failure = failure
        finally:
            self._reader.close()

    def stop(self) -> None:
        """End after the batch in hand."""
        self._stopping.set()
        self.join()

    def progress(self) -> BridgeProgress:
        """What it has done so far."""
        return BridgeProgress(self._stream.name, time.time_ns() // 1000, self.copied, self.left, self.trouble)

    def _try(self) -> None:
        """Copy until something is away; then begin again from what the log has."""
        try:
            self._copy()
        except (Away, NotDelivered, BrokerUnreachable) as passing:
            if str(passing) != self.trouble:
                LOGGER.warning("%s waits: %s", self._stream.name, passing)
            self.trouble = str(passing)
            self._reader.close()
            self._stopping.wait(RETRY_SECONDS)

    def _copy(self) -> None:
        history, topic = self._reader.open(), self._stream.name
        position = position_in(self._broker, topic, history)
        through = max(position.through, self._reader.kept())
        copy = Copy(self._stream, history, Producer(self._broker, is_gapless=True), largest_record(self._broker, topic))
        LOGGER.info("%s comes from %s, after %d", topic, history, through)
        while not self._stopping.is_set():
            batch = self._reader.read(through, BATCH)
            self.trouble = ""
            self.copied += copy.send(batch, Position(through, position.beyond))
            through = batch[-1].number if batch else through
            self._reader.keep(through)
            self._look()

    def _look(self) -> None:
        """See now and then how much is left."""
        if time.monotonic() >= self._look_at:
            self.left, self._look_at = self._reader.left(), time.monotonic() + LOOK_SECONDS


class Copy:
    """Writes messages into a raw topic as they are."""

    def __init__(self, stream: Stream, history: str, producer: Producer, largest: int) -> None:
        self._stream, self._history, self._producer, self._largest = stream, history, producer, largest

    def send(self, batch: list[Arrived], position: Position) -> int:
        """Send what the log does not have yet, and wait until it has; how many that were."""
        news = [message for message in batch if message.number not in position.beyond]
        for message in news:
            place = headers_of(self._history, Place(message.number, position.through))
            value, cut = self._fitting(message)
            headers = [*place, *cut, *message.headers]
            self._producer.send(self._stream.name, value, key=self._key(value), headers=headers)
        if news:
            self._producer.flush()
        return len(news)

    def _fitting(self, message: Arrived) -> tuple[bytes, list[tuple[str, bytes]]]:
        """A message that the log would not take is there by its beginning: the gate judges it, and nothing is lost."""
        size = len(message.value) + sum(len(name) + len(value) for name, value in message.headers)
        if size + ROOM <= self._largest:
            return message.value, []
        LOGGER.warning("%s: message %d has %d bytes: it is cut", self._stream.name, message.number, size)
        return message.value[:SHOWN], [(TOO_LARGE, b"%d" % size)]

    def _key(self, value: bytes) -> str | None:
        """The key a producer would have sent along; None where there is none to be read."""
        try:
            event = orjson.loads(value)
        except orjson.JSONDecodeError:
            return None
        found = event.get(self._stream.key) if isinstance(event, dict) else None
        return key_text(found) if isinstance(found, str | int) else None
