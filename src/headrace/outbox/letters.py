"""Rows of an outbox as the log takes them, and what is wrong with those it never will."""

from collections.abc import Mapping
from typing import NamedTuple

import orjson

from headrace.declare.stream import Stream
from headrace.errors import HeadraceError
from headrace.log.encode import Encoder, encoder_of
from headrace.log.produced import ROOM, key_of
from headrace.outbox.table import Waiting
from headrace.tiles.events import Unreadable

ID = "headrace.id"


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
        self._encoders: dict[str, Encoder] = {name: encoder_of(stream) for name, stream in streams.items()}

    def letter(self, row: Waiting, largest: int) -> Letter:
        """The letter of a row, which fits its stream and is not larger than its topic takes."""
        value = self._value(row)
        size = len(value) + len(row.key.encode()) + len(row.id.encode()) + ROOM
        if size > largest:
            raise Poison(f"too-large: {size} bytes, and the topic takes {largest}")
        return Letter(row, value)

    def _value(self, row: Waiting) -> bytes:
        stream = self._streams.get(row.stream)
        if stream is None:
            return row.payload.encode()
        payload = orjson.loads(row.payload)
        if not isinstance(payload, dict):
            raise Poison("not-json: the payload is not an object")
        try:
            value, event = self._encoders[row.stream].encode(payload)
        except Unreadable as why:
            raise Poison(str(why)) from why
        if key_of(stream, event) != row.key:
            raise Poison(f"wrong-key: key is {row.key!r:.80}, and column {stream.key} {key_of(stream, event)!r:.80}")
        return value
