"""How the events of a stream are written: the one place where a stream's encoding is chosen.

row ──written──▶ JSON ──read as the gate reads──▶ fit? ──▶ JSON as it stands, or Avro by a registered schema
                                                   └ no: what the gate would say of it
"""

from collections.abc import Mapping
from datetime import datetime
from math import isfinite, isnan
from typing import Any, Protocol

import numpy as np
import orjson

from headrace.declare.schema import Kind, Schema
from headrace.declare.stream import Stream
from headrace.errors import HeadraceError
from headrace.log.produce import JSON
from headrace.log.schemas.encode import Frame, Unwritable, framing
from headrace.tiles.admission import failed_check
from headrace.tiles.events import Event, Unreadable, read_event

OPTIONS = JSON | orjson.OPT_SERIALIZE_NUMPY
PLAIN = (str, int, float, dict, list, np.generic, type(None))
Row = Mapping[str, Any]


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


def json_of(schema: Schema, row: Row) -> bytes:
    """A row of Python's values in JSON, so that the gate reads the same."""
    try:
        return orjson.dumps({name: _told(schema, name, row[name]) for name in row}, option=OPTIONS)
    except TypeError as problem:
        raise Unreadable(f"not-json: {problem}") from problem


def _told(schema: Schema, name: str, value: Any) -> Any:
    """A value as JSON can say it; a double for which it has no word is text, and nothing else may be such a one."""
    if isinstance(value, datetime):
        return value if type(value) is datetime else value.isoformat()  # pandas has moments of its own
    if isinstance(value, float | np.floating) and not isfinite(value):
        if schema.column(name, name).kind is not Kind.DOUBLE:
            raise Unreadable(f"wrong-type: column {name} is {value}, which only a double can be")
        return "NaN" if isnan(value) else "Infinity" if value > 0 else "-Infinity"
    if not isinstance(value, PLAIN):
        raise Unreadable(
            f"wrong-type: column {name} is neither text, a number, a boolean nor a datetime: {value!r:.80}"
        )
    return value
