"""Apache Pulsar: a reader without a subscription, started at any position that the bridge requests.

A message id is its ledger, its entry there and its index in the entry's batch; each increases. As one number:

    ledger 12, entry 7, third of its batch   ▶   12 · 2⁶⁴ + 7 · 2²⁴ + 4
"""

import contextlib
import logging
import os
import ssl
from collections.abc import Callable
from typing import NamedTuple, TypeVar

import pulsar

from headrace.connectors.sources.source_reader import SourceConfigError, SourceMessage, SourceUnavailable
from headrace.declare.streams.external_sources import Pulsar
from headrace.storage.secrets import resolve_secret

LOGGER = logging.getLogger("headrace.bridge")
CONNECT_TIMEOUT_SECONDS = 5
FIRST_MESSAGE_TIMEOUT_MS, NEXT_MESSAGE_TIMEOUT_MS = 300, 5
RECEIVER_QUEUE_SIZE = 1000
LEDGER_BITS, ENTRY_BITS = 64, 24
ResultT = TypeVar("ResultT")


class PulsarEntry(NamedTuple):
    """The position of a message, or of a batch of messages, in Pulsar."""

    ledger: int
    entry: int


def to_message_number(message_id: pulsar.MessageId) -> int:
    """The number of a message; it is greater than 0, also for an unbatched message with batch index -1."""
    number: int = (
        (message_id.ledger_id() << LEDGER_BITS) + (message_id.entry_id() << ENTRY_BITS) + message_id.batch_index() + 2
    )
    return number


def to_entry(number: int) -> PulsarEntry:
    """The entry of a message number."""
    ledger, entry_bits = divmod(number, 1 << LEDGER_BITS)
    return PulsarEntry(ledger, entry_bits >> ENTRY_BITS)


class PulsarReader:
    """Reads a topic, or one partition of it."""

    def __init__(self, source: Pulsar, name: str) -> None:
        self._source, self._topic = source, source.partition_topic
        self._label = f"Pulsar topic {self._topic!r} of {name}"
        self._client: pulsar.Client | None = None
        self._pulsar_reader: pulsar.Reader | None = None
        self._last_number = 0
        self._start_entry: PulsarEntry | None = None  # where we started, until the first message has arrived

    def open(self) -> str:
        if self._client is None:
            self._client = self._run(self._connect)
        topic_partitions = self._run(lambda: self._connected_client.get_topic_partitions(self._source.topic))
        partitions = None if list(topic_partitions) == [self._source.topic] else len(topic_partitions)
        if partitions != self._source.partitions:
            raise SourceConfigError(
                f"{self._label}: partitions={self._source.partitions} is declared, and Pulsar has {partitions}. "
                f"Write partitions={partitions}, and restart."
            )
        return f"pulsar:{self._topic}"

    def acknowledged_number(self) -> int:
        """0: a reader does not acknowledge messages."""
        return 0

    def read(self, after: int, max_messages: int) -> list[SourceMessage]:
        if self._pulsar_reader is None or after != self._last_number:
            self._pulsar_reader = self._run(lambda: self._create_reader(after))
        pulsar_reader = self._pulsar_reader
        return self._run(lambda: self._fetch_messages(pulsar_reader, max_messages))

    def count_remaining(self) -> int:
        """1 if there are more messages, else 0: Pulsar does not count them for a reader."""
        pulsar_reader = self._pulsar_reader
        return 0 if pulsar_reader is None else int(self._run(pulsar_reader.has_message_available))

    def acknowledge(self, last_number: int) -> None:
        """Do nothing: a reader does not acknowledge messages."""

    def close(self) -> None:
        client, self._client, self._pulsar_reader = self._client, None, None
        with contextlib.suppress(pulsar.PulsarException):
            if client is not None:
                client.close()

    def _run(self, call: Callable[[], ResultT]) -> ResultT:
        """Run a call to Pulsar; errors show only the exception's name, never an address or a token."""
        try:
            return call()
        except pulsar.TopicNotFound:
            raise SourceUnavailable(f"{self._label} does not exist. Create it; the bridge waits for it.") from None
        except (pulsar.PulsarException, ValueError) as error:
            reason = type(error).__name__
            raise SourceUnavailable(
                f"{self._label} cannot be read: {reason}. Start Pulsar, or correct its address or token."
            ) from None

    def _connect(self) -> pulsar.Client:
        token = self._source.token
        return pulsar.Client(
            resolve_secret(self._source.url, self._label),
            authentication=token and pulsar.AuthenticationToken(resolve_secret(token, self._label)),
            operation_timeout_seconds=CONNECT_TIMEOUT_SECONDS,
            connection_timeout_ms=CONNECT_TIMEOUT_SECONDS * 1000,
            tls_trust_certs_file_path=ssl.get_default_verify_paths().cafile,
            tls_validate_hostname=True,
            logger=pulsar.FileLogger(pulsar.LoggerLevel.Error, os.devnull),  # its lines could show the address
        )

    @property
    def _connected_client(self) -> pulsar.Client:
        if self._client is None:
            raise SourceUnavailable(f"{self._label} is not connected yet.")
        return self._client

    def _create_reader(self, after: int) -> pulsar.Reader:
        """Create a reader that starts at the message's entry; `_accept_message` skips earlier messages of its batch."""
        if self._pulsar_reader is not None:
            self._pulsar_reader.close()
        self._last_number, self._start_entry = after, to_entry(after) if after else None
        start_message_id = (
            pulsar.MessageId(-1, *self._start_entry, 0) if self._start_entry else pulsar.MessageId.earliest
        )
        return self._connected_client.create_reader(
            self._topic, start_message_id, start_message_id_inclusive=True, receiver_queue_size=RECEIVER_QUEUE_SIZE
        )

    def _fetch_messages(self, pulsar_reader: pulsar.Reader, max_messages: int) -> list[SourceMessage]:
        messages: list[SourceMessage] = []
        with contextlib.suppress(pulsar.Timeout):
            while len(messages) < max_messages:
                message = pulsar_reader.read_next(NEXT_MESSAGE_TIMEOUT_MS if messages else FIRST_MESSAGE_TIMEOUT_MS)
                if self._accept_message(message):
                    messages.append(_to_source_message(message))
        if not messages and not pulsar_reader.is_connected():
            raise SourceUnavailable(f"{self._label} does not answer. Start Pulsar; the bridge waits for it.")
        return messages

    def _accept_message(self, message: pulsar.Message) -> bool:
        """Whether a message is new; logs a gap after the start entry."""
        number = to_message_number(message.message_id())
        start_entry, self._start_entry = self._start_entry, None
        if start_entry is not None and to_entry(number) > start_entry:
            LOGGER.warning(
                "%s: Pulsar no longer has entry %d:%d, the last one copied: it continues at %d:%d, and messages in "
                "between may be lost. Set the topic's retention longer than the bridge's downtime.",
                *(self._label, *start_entry, *to_entry(number)),
            )
        if number <= self._last_number:
            return False
        self._last_number = number
        return True


def _to_source_message(message: pulsar.Message) -> SourceMessage:
    headers = [(name, value.encode()) for name, value in message.properties().items()]
    return SourceMessage(to_message_number(message.message_id()), message.data(), headers)
