"""How the events of a stream are written: the one place where a stream's encoding is chosen.

row ──written──▶ JSON ──read as the gate reads──▶ fit? ──▶ JSON as it stands, or Avro by a registered schema
                                                   └ no: what the gate would say of it
"""

from typing import Protocol

from headrace.declare.stream import Stream
from headrace.errors import HeadraceError
from headrace.log.schemas.encode import Frame, Unwritable, framing
from headrace.tiles.admission import failed_check
from headrace.tiles.events import Event, Unreadable, read_event


class Encoder(Protocol):
    """Writes events of one stream."""

    def encode(self, written: bytes) -> tuple[bytes, Event]:
        """An event in JSON as the log takes it, and as the gate will read it; raises `Unreadable` where it cannot."""


class NotWritten(HeadraceError):
    """A stream whose events Headrace reads and does not write."""


def encoder_of(stream: Stream) -> Encoder:
    """Who writes the events of a stream; where a registry has its schemas, it is asked for the newest."""
    plain = JsonEncoder(stream)
    if stream.encoded is None:
        return plain
    try:
        return FramingEncoder(plain, framing(stream))
    except Unwritable as why:
        raise NotWritten(str(why)) from why


class JsonEncoder:
    """Lets JSON stand as it is, once it was read as the gate does: what that would refuse is refused here."""

    def __init__(self, stream: Stream) -> None:
        self._stream = stream

    def encode(self, written: bytes) -> tuple[bytes, Event]:
        event = read_event(self._stream.schema, written)
        require_fit(self._stream, event)
        return written, event


class FramingEncoder:
    """Writes events as their stream's registry has them, once they are fit."""

    def __init__(self, plain: Encoder, frame: Frame) -> None:
        self._plain, self._frame = plain, frame

    def encode(self, written: bytes) -> tuple[bytes, Event]:
        value, event = self._plain.encode(written)
        return self._frame(value), event


def require_fit(stream: Stream, event: Event) -> None:
    """Refuse an event that the gate would, whenever it came; what is late, or too far ahead, is for the gate to say."""
    for part, column in stream.needed.items():
        if event[column] is None:
            raise Unreadable(f"missing-{part}: column {column} is absent or null")
    if failed_check(stream, [event])[0]:
        raise Unreadable(f"failed-check: {stream.check}")
