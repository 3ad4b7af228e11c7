"""The registry of stream sources other than Kafka: each class is a source, and its class variables are its entry.

A bridge copies a source into the raw topic of a stream, in its order. Its reader is one file in
`headrace.connectors.sources`, and needs the driver. The names in `__all__` are exported as `hr.…`.
"""

import re
from dataclasses import dataclass, field, replace
from typing import Any, Self
from urllib.parse import urlsplit

from headrace.declare.streams.external_source import ENV_PREFIX, FILE_PREFIX, ExternalSource, is_matching_text
from headrace.plugins import Driver, PluginEntry, PluginRegistry, option

__all__ = ["Nats", "Pulsar"]

MAX_PARTITIONS = 64  # each needs its own thread and producer
_NATS_STREAM_PATTERN = re.compile(r"[^\s.*>/\\]+")
_NATS_SUBJECT_PATTERN = re.compile(r"[^\s]+")
_NATS_URL_PATTERN = re.compile(rf"({ENV_PREFIX}|nats://|tls://)\S+")
_PULSAR_URL_PATTERN = re.compile(rf"({ENV_PREFIX}|pulsar://|pulsar\+ssl://)\S+")
_PULSAR_TOPIC_PATTERN = re.compile(r"persistent://[^\s/]+/[^\s/]+/[^\s/]+")


@dataclass(frozen=True)
class Nats(ExternalSource):
    """A stream of NATS JetStream, optionally filtered by subject."""

    reader = PluginEntry[Any](
        "nats", "NATS JetStream", "headrace.connectors.sources.nats:NatsReader", Driver("nats", extra="nats")
    )
    example = 'hr.Nats("env:NATS_URL", stream="PAYMENTS")'

    url: str = field(
        repr=False,
        metadata=option(
            "`nats://HOST:PORT`, or `env:NAME` for an address with a user, a password or a token, which are "
            "rejected in code"
        ),
    )
    stream: str = field(metadata=option("the JetStream stream; the bridge waits until it exists"))
    subject: str | None = field(
        default=None, metadata=option("a subject filter, with `*` and `>`; default: all subjects")
    )

    @property
    def display_name(self) -> str:
        return f"nats {self.stream}" + (f" {self.subject}" if self.subject else "")

    def _problem(self) -> str | None:
        if not is_matching_text(self.stream, _NATS_STREAM_PATTERN):
            return f'stream={self.stream!r} is no stream of JetStream. Write stream="PAYMENTS".'
        if self.subject is not None and not is_matching_text(self.subject, _NATS_SUBJECT_PATTERN):
            return f'subject={self.subject!r} is no subject. Write subject="payments" or "payments.*", or omit it.'
        if not is_matching_text(self.url, _NATS_URL_PATTERN):
            return f'url= is no address of nats://. Write hr.Nats("{ENV_PREFIX}NATS_URL", …) and set that variable.'
        if urlsplit(self.url).password is not None or urlsplit(self.url).username is not None:
            return (
                f'url= has a secret, and code is no place for one. Write "{ENV_PREFIX}NATS_URL" and set that variable.'
            )
        return None


@dataclass(frozen=True)
class Pulsar(ExternalSource):
    """A topic of Apache Pulsar; for a partitioned topic all partitions, or one of them."""

    reader = PluginEntry[Any](
        "pulsar", "Apache Pulsar", "headrace.connectors.sources.pulsar:PulsarReader", Driver("pulsar", extra="pulsar")
    )
    example = 'hr.Pulsar("env:PULSAR_URL", topic="persistent://public/default/payments")'

    url: str = field(repr=False, metadata=option("`pulsar://HOST:PORT`, `pulsar+ssl://HOST:PORT`, or `env:NAME`"))
    topic: str = field(metadata=option("the topic by its full name; the bridge waits until it exists"))
    partitions: int | None = field(
        default=None,
        metadata=option(
            "the number of partitions of a partitioned topic; omit it for other topics. A number that differs from "
            "Pulsar's is an error"
        ),
    )
    partition: int | None = field(default=None, metadata=option("one partition only; default: all"))
    token: str | None = field(default=None, repr=False, metadata=option("`env:NAME` or `file:PATH`; rejected in code"))

    @property
    def display_name(self) -> str:
        return f"pulsar {self.partition_topic}"

    @property
    def partition_topic(self) -> str:
        """The topic to read: in Pulsar, each partition is a topic."""
        return self.topic if self.partition is None else f"{self.topic}-partition-{self.partition}"

    @property
    def splits(self) -> tuple[Self, ...]:
        if self.partitions is None or self.partition is not None:
            return (self,)
        return tuple(replace(self, partition=number) for number in range(self.partitions))

    def _problem(self) -> str | None:
        if not is_matching_text(self.topic, _PULSAR_TOPIC_PATTERN):
            return f'topic={self.topic!r} is no topic. Write topic="persistent://public/default/payments".'
        if self.partitions is not None and not _is_index(self.partitions - 1, MAX_PARTITIONS):
            return f"partitions={self.partitions!r} is no number of partitions. Omit it for an unpartitioned topic."
        if self.partition is not None and not _is_index(self.partition, self.partitions or 0):
            return f"partition={self.partition!r} is none of partitions={self.partitions!r}. Omit it for all."
        if not is_matching_text(self.url, _PULSAR_URL_PATTERN) or "@" in self.url:
            return (
                f'url= is no address of pulsar://. Write hr.Pulsar("{ENV_PREFIX}PULSAR_URL", …) and set that variable.'
            )
        if self.token is not None and not self.token.startswith((ENV_PREFIX, FILE_PREFIX)):
            return f'token= is a secret, and code is no place for one. Write token="{ENV_PREFIX}PULSAR_TOKEN".'
        return None


def _is_index(number: int, count: int) -> bool:
    return 0 <= number < count


EXTERNAL_SOURCES: tuple[type[ExternalSource], ...] = (Nats, Pulsar)

STREAM_SOURCES = PluginRegistry("source", "bridges.md", [source.reader for source in EXTERNAL_SOURCES])
