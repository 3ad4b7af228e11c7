"""Logs other than Kafka that a stream may come from: a bridge copies them into its raw topic, in their order."""

import re
from dataclasses import dataclass, field
from typing import ClassVar
from urllib.parse import urlsplit

from headrace.errors import DeclarationError

ENV = "env:"
_STREAM = re.compile(r"[^\s.*>/\\]+")
_SUBJECT = re.compile(r"[^\s]+")
_URL = re.compile(rf"({ENV}|nats://|tls://)\S+")


@dataclass(frozen=True)
class Source:
    """A log that numbers what it keeps."""

    kind: ClassVar[str]

    @property
    def named(self) -> str:
        """What it is called, without a word of its address."""
        raise NotImplementedError


@dataclass(frozen=True)
class Nats(Source):
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
    def named(self) -> str:
        return f"nats {self.stream}" + (f" {self.subject}" if self.subject else "")

    def _problem(self) -> str | None:
        if not _is_text(self.stream, _STREAM):
            return f'stream={self.stream!r} is no stream of JetStream. Write stream="PAYMENTS".'
        if self.subject is not None and not _is_text(self.subject, _SUBJECT):
            return f'subject={self.subject!r} is no subject. Write subject="payments" or "payments.*", or leave it out.'
        if not _is_text(self.url, _URL):
            return f'url= is no address of nats://. Write hr.Nats("{ENV}NATS_URL", …) and set that variable.'
        if urlsplit(self.url).password is not None or urlsplit(self.url).username is not None:
            return f'url= has a secret, and code is no place for one. Write "{ENV}NATS_URL" and set that variable.'
        return None


def _is_text(value: object, pattern: re.Pattern[str]) -> bool:
    return isinstance(value, str) and pattern.fullmatch(value) is not None
