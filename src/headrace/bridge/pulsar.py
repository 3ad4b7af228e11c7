"""Apache Pulsar: a reader without a subscription, begun wherever the bridge says.

A message is named by its ledger, its entry there and its place in the entry's batch; each grows. In one number:

    ledger 12, entry 7, third of its batch   ▶   12 · 2⁶⁴ + 7 · 2²⁴ + 4
"""

import contextlib
import logging
import os
import ssl
from collections.abc import Callable
from typing import NamedTuple, TypeVar

import pulsar

from headrace.bridge.reader import Arrived, Away, Unreadable
from headrace.declare.sources import Pulsar
from headrace.log.secrets import secret_in

LOGGER = logging.getLogger("headrace.bridge")
CONNECT_SECONDS = 5
WAIT_MS, NEXT_MS = 300, 5
AHEAD = 1000
LEDGER_BITS, ENTRY_BITS = 64, 24
Answer = TypeVar("Answer")


class Entry(NamedTuple):
    """A place that Pulsar keeps a message at, or a batch of them."""

    ledger: int
    entry: int


def number_of(place: pulsar.MessageId) -> int:
    """The number of a message; one that is in no batch says -1 of its place there, and no number is 0."""
    number: int = (place.ledger_id() << LEDGER_BITS) + (place.entry_id() << ENTRY_BITS) + place.batch_index() + 2
    return number


def entry_of(number: int) -> Entry:
    """Where the message of a number is."""
    ledger, rest = divmod(number, 1 << LEDGER_BITS)
    return Entry(ledger, rest >> ENTRY_BITS)


class PulsarReader:
    """Reads a topic, or one partition of it."""

    def __init__(self, source: Pulsar, name: str) -> None:
        self._source, self._topic = source, source.read_topic
        self._where = f"Pulsar topic {self._topic!r} of {name}"
        self._client: pulsar.Client | None = None
        self._taking: pulsar.Reader | None = None
        self._last = 0
        self._sought: Entry | None = None  # where we began, until the first message has come

    def open(self) -> str:
        if self._client is None:
            self._client = self._do(self._connect)
        found = self._do(lambda: self._reached.get_topic_partitions(self._source.topic))
        partitions = None if list(found) == [self._source.topic] else len(found)
        if partitions != self._source.partitions:
            raise Unreadable(
                f"{self._where}: partitions={self._source.partitions} is declared, and Pulsar has {partitions}. "
                f"Write partitions={partitions}, and start again."
            )
        return f"pulsar:{self._topic}"

    def kept(self) -> int:
        """Nothing is told to Pulsar."""
        return 0

    def read(self, after: int, most: int) -> list[Arrived]:
        if self._taking is None or after != self._last:
            self._taking = self._do(lambda: self._begin(after))
        taking = self._taking
        return self._do(lambda: self._fetch(taking, most))

    def left(self) -> int:
        """Pulsar does not count them for a reader: 1 where there is any."""
        taking = self._taking
        return 0 if taking is None else int(self._do(taking.has_message_available))

    def keep(self, through: int) -> None:
        """Nothing is told to Pulsar."""

    def close(self) -> None:
        client, self._client, self._taking = self._client, None, None
        with contextlib.suppress(pulsar.PulsarException):
            if client is not None:
                client.close()

    def _do(self, work: Callable[[], Answer]) -> Answer:
        """Wait for Pulsar; whatever went wrong is told by its name alone, without an address or a token."""
        try:
            return work()
        except pulsar.TopicNotFound:
            raise Away(f"{self._where} is not there. Create it; it is waited for.") from None
        except (pulsar.PulsarException, ValueError) as error:
            told = type(error).__name__
            raise Away(f"{self._where} cannot be read: {told}. Start Pulsar, or mend its address or token.") from None

    def _connect(self) -> pulsar.Client:
        token = self._source.token
        return pulsar.Client(
            secret_in(self._source.url, self._where),
            authentication=token and pulsar.AuthenticationToken(secret_in(token, self._where)),
            operation_timeout_seconds=CONNECT_SECONDS,
            connection_timeout_ms=CONNECT_SECONDS * 1000,
            tls_trust_certs_file_path=ssl.get_default_verify_paths().cafile,
            tls_validate_hostname=True,
            logger=pulsar.FileLogger(pulsar.LoggerLevel.Error, os.devnull),  # what it says could show the address
        )

    @property
    def _reached(self) -> pulsar.Client:
        if self._client is None:
            raise Away(f"{self._where} is not reached yet.")
        return self._client

    def _begin(self, after: int) -> pulsar.Reader:
        """A reader from the entry of that message on: what of its batch comes before is passed over by number."""
        if self._taking is not None:
            self._taking.close()
        self._last, self._sought = after, entry_of(after) if after else None
        start = pulsar.MessageId(-1, *self._sought, 0) if self._sought else pulsar.MessageId.earliest
        return self._reached.create_reader(
            self._topic, start, start_message_id_inclusive=True, receiver_queue_size=AHEAD
        )

    def _fetch(self, taking: pulsar.Reader, most: int) -> list[Arrived]:
        arrived: list[Arrived] = []
        with contextlib.suppress(pulsar.Timeout):
            while len(arrived) < most:
                message = taking.read_next(NEXT_MS if arrived else WAIT_MS)
                if self._is_next(message):
                    arrived.append(_arrived(message))
        if not arrived and not taking.is_connected():
            raise Away(f"{self._where} does not answer. Start Pulsar; it is waited for.")
        return arrived

    def _is_next(self, message: pulsar.Message) -> bool:
        """Whether it comes after what we have."""
        number = number_of(message.message_id())
        sought, self._sought = self._sought, None
        if sought is not None and entry_of(number) > sought:
            LOGGER.warning(
                "%s: Pulsar no longer has entry %d:%d, up to which all was copied: it goes on at %d:%d, and what came "
                "between may be lost. Let the topic's retention be longer than a bridge is away.",
                *(self._where, *sought, *entry_of(number)),
            )
        if number <= self._last:
            return False
        self._last = number
        return True


def _arrived(message: pulsar.Message) -> Arrived:
    headers = [(name, value.encode()) for name, value in message.properties().items()]
    return Arrived(number_of(message.message_id()), message.data(), headers)
