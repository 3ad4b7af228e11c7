"""A record of the log, as the rest of Headrace sees it."""

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
    """One record: its place, when the log took it, and its bytes."""

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
        """Where it stands, as errors name it.

        >>> ConsumerRecord("payments", 0, 42, 0, None, None, None).location
        'payments-0@42'
        """
        return f"{self.topic}-{self.partition}@{self.offset}"


def to_record(message: Message) -> ConsumerRecord:
    """The client's message as a record."""
    return ConsumerRecord(
        message.topic(),  # type: ignore[arg-type]  # a consumed message has a place
        message.partition(),  # type: ignore[arg-type]
        message.offset(),  # type: ignore[arg-type]
        message.timestamp()[1] * 1000,
        message.key(),
        message.value(),
        message.headers(),  # type: ignore[arg-type]  # the client gives pairs; the dict form is for producing
    )


def escape_unprintable(text: str) -> str:
    r"""Text that is shown and not obeyed, whatever a terminal would make of it.

    >>> print(escape_unprintable("café\x1b[2J"))
    café\x1b[2J
    """
    return "".join(char if char.isprintable() else repr(char)[1:-1] for char in text)
