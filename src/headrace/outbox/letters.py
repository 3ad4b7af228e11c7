"""Rows of an outbox as the log takes them, and what is wrong with those it never will."""

import re
from collections.abc import Mapping
from typing import NamedTuple

from headrace.declare.stream import Stream
from headrace.errors import HeadraceError
from headrace.log.encode import Encoder, NotWritten, encoder_of
from headrace.log.produced import ROOM, key_of
from headrace.outbox.table import Waiting
from headrace.tiles.events import Unreadable

ID = "headrace.id"
TOPIC = re.compile(r"[A-Za-z0-9._-]{1,249}")


class Poison(HeadraceError):
    """A row that can never be sent as it is; the message is the reason it is parked with."""


class Letter(NamedTuple):
    """A row as it is sent."""

    row: Waiting
    value: bytes

    @property
    def headers(self) -> list[tuple[str, str | bytes]]:
        """What is sent beside the value: the row's id, by which a reader of any topic knows what came again."""
        return [(ID, self.row.id)]


class Letters:
    """Writes rows: of streams that are declared, as these say; of other topics, the payload as it stands."""

    def __init__(self, streams: Mapping[str, Stream]) -> None:
        self._streams = dict(streams)
        self._encoders: dict[str, Encoder] = {}

    def letter(self, row: Waiting, largest: int) -> Letter:
        """The letter of a row, which fits its stream and is not larger than its topic takes."""
        if not TOPIC.fullmatch(row.stream):
            raise Poison(f"no-topic: {row.stream!r:.80} is no name of a topic")
        value = self._value(row)
        size = len(value) + len(row.key.encode()) + len(row.id.encode()) + ROOM
        if size > largest:
            raise Poison(f"too-large: {size} bytes, and the topic takes {largest}")
        return Letter(row, value)

    def _value(self, row: Waiting) -> bytes:
        stream = self._streams.get(row.stream)
        if stream is None:
            return row.payload.encode()
        try:
            value, event = self._encoder(stream).encode(row.payload.encode())
        except Unreadable as why:
            raise Poison(str(why)) from why
        if key_of(stream, event) != row.key:
            raise Poison(f"wrong-key: key is {row.key!r:.80}, and column {stream.key} {key_of(stream, event)!r:.80}")
        return value

    def _encoder(self, stream: Stream) -> Encoder:
        """Who writes a stream: made when it is first needed, for a registry that is away is waited for."""
        if stream.name not in self._encoders:
            try:
                self._encoders[stream.name] = encoder_of(stream)
            except NotWritten as why:
                raise Poison(f"not-written: {why}") from why
        return self._encoders[stream.name]
