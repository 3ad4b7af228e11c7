"""A record of the log, in the form the rest of Headrace uses."""

from typing import NamedTuple

from confluent_kafka import Message

Headers = list[tuple[str, bytes]]


class Partition(NamedTuple):
    """A partition of a topic."""

    topic: str
    number: int

    def __str__(self) -> str:
        return f"{self.topic}-{self.number}"


class ConsumerRecord(NamedTuple):
    """One record: its location, when it was appended, and its bytes."""

    topic: str
    partition: int
    offset: int
    appended_us: int
    key: bytes | None
    value: bytes | None
    headers: Headers | None

    def header(self, name: str) -> bytes | None:
        """The value of the first header of that name."""
        for key, value in self.headers or ():  # no generator: it is asked of every record that is counted
            if key == name:
                return value
        return None

    @property
    def location(self) -> str:
        """Its location as errors show it.

        >>> ConsumerRecord("payments", 0, 42, 0, None, None, None).location
        'payments-0@42'
        """
        return f"{self.topic}-{self.partition}@{self.offset}"


def to_record(message: Message) -> ConsumerRecord:
    """Convert the client's message to a record."""
    return ConsumerRecord(
        message.topic(),  # type: ignore[arg-type]  # a consumed message has an offset
        message.partition(),  # type: ignore[arg-type]
        message.offset(),  # type: ignore[arg-type]
        message.timestamp()[1] * 1000,
        message.key(),
        message.value(),
        message.headers(),  # type: ignore[arg-type]  # the client gives pairs; the dict form is for producing
    )


def escape_unprintable(text: str) -> str:
    r"""Text without terminal control characters.

    >>> print(escape_unprintable("café\x1b[2J"))
    café\x1b[2J
    """
    return "".join(char if char.isprintable() else repr(char)[1:-1] for char in text)
