"""Logs other than Kafka that a stream may come from: a bridge copies them into its raw topic, in their order."""

import re
from dataclasses import dataclass, field, replace
from typing import ClassVar, Self
from urllib.parse import urlsplit

from headrace.errors import DeclarationError

ENV_PREFIX, FILE_PREFIX = "env:", "file:"
MAX_PARTITIONS = 64  # each is a thread, and a producer of its own
_NATS_STREAM_PATTERN = re.compile(r"[^\s.*>/\\]+")
_NATS_SUBJECT_PATTERN = re.compile(r"[^\s]+")
_NATS_URL_PATTERN = re.compile(rf"({ENV_PREFIX}|nats://|tls://)\S+")
_PULSAR_URL_PATTERN = re.compile(rf"({ENV_PREFIX}|pulsar://|pulsar\+ssl://)\S+")
_PULSAR_TOPIC_PATTERN = re.compile(r"persistent://[^\s/]+/[^\s/]+/[^\s/]+")


@dataclass(frozen=True)
class ExternalSource:
    """A log that numbers what it keeps."""

    kind: ClassVar[str]

    @property
    def display_name(self) -> str:
        """What it is called, without a word of its address."""
        raise NotImplementedError

    @property
    def splits(self) -> tuple[Self, ...]:
        """What of it is numbered by itself, and is read on its own."""
        return (self,)


@dataclass(frozen=True)
class Nats(ExternalSource):
    """A stream of NATS JetStream, and of it what was published to a subject: all of them without one."""

    kind = "nats"

    url: str = field(repr=False)
    stream: str
    subject: str | None = None

    def __post_init__(self) -> None:
        problem = self._problem()
        if problem is not None:
            raise DeclarationError(f"Nats: {problem}")

    @property
    def display_name(self) -> str:
        return f"nats {self.stream}" + (f" {self.subject}" if self.subject else "")

    def _problem(self) -> str | None:
        if not _is_matching_text(self.stream, _NATS_STREAM_PATTERN):
            return f'stream={self.stream!r} is no stream of JetStream. Write stream="PAYMENTS".'
        if self.subject is not None and not _is_matching_text(self.subject, _NATS_SUBJECT_PATTERN):
            return f'subject={self.subject!r} is no subject. Write subject="payments" or "payments.*", or leave it out.'
        if not _is_matching_text(self.url, _NATS_URL_PATTERN):
            return f'url= is no address of nats://. Write hr.Nats("{ENV_PREFIX}NATS_URL", …) and set that variable.'
        if urlsplit(self.url).password is not None or urlsplit(self.url).username is not None:
            return (
                f'url= has a secret, and code is no place for one. Write "{ENV_PREFIX}NATS_URL" and set that variable.'
            )
        return None


@dataclass(frozen=True)
class Pulsar(ExternalSource):
    """A topic of Apache Pulsar; of a partitioned one every partition, or the one that is named."""

    kind = "pulsar"

    url: str = field(repr=False)
    topic: str
    partitions: int | None = None
    partition: int | None = None
    token: str | None = field(default=None, repr=False)

    def __post_init__(self) -> None:
        problem = self._problem()
        if problem is not None:
            raise DeclarationError(f"Pulsar: {problem}")

    @property
    def display_name(self) -> str:
        return f"pulsar {self.partition_topic}"

    @property
    def partition_topic(self) -> str:
        """What is read: a partition is a topic of its own."""
        return self.topic if self.partition is None else f"{self.topic}-partition-{self.partition}"

    @property
    def splits(self) -> tuple[Self, ...]:
        if self.partitions is None or self.partition is not None:
            return (self,)
        return tuple(replace(self, partition=number) for number in range(self.partitions))

    def _problem(self) -> str | None:
        if not _is_matching_text(self.topic, _PULSAR_TOPIC_PATTERN):
            return f'topic={self.topic!r} is no topic. Write topic="persistent://public/default/payments".'
        if self.partitions is not None and not _is_index(self.partitions - 1, MAX_PARTITIONS):
            return f"partitions={self.partitions!r} is no number of partitions. Leave it out where there are none."
        if self.partition is not None and not _is_index(self.partition, self.partitions or 0):
            return f"partition={self.partition!r} is none of partitions={self.partitions!r}. Leave it out for all."
        if not _is_matching_text(self.url, _PULSAR_URL_PATTERN) or "@" in self.url:
            return (
                f'url= is no address of pulsar://. Write hr.Pulsar("{ENV_PREFIX}PULSAR_URL", …) and set that variable.'
            )
        if self.token is not None and not self.token.startswith((ENV_PREFIX, FILE_PREFIX)):
            return f'token= is a secret, and code is no place for one. Write token="{ENV_PREFIX}PULSAR_TOKEN".'
        return None


def _is_index(number: int, count: int) -> bool:
    return 0 <= number < count


def _is_matching_text(value: object, pattern: re.Pattern[str]) -> bool:
    return isinstance(value, str) and pattern.fullmatch(value) is not None
