"""How the events of a stream are written: the one place where a stream's encoding is chosen."""

from collections.abc import Mapping
from datetime import datetime
from math import isfinite, isnan
from typing import Any, Protocol

import numpy as np
import orjson

from headrace.declare.schema import Kind
from headrace.declare.stream import Stream
from headrace.log.produce import JSON
from headrace.log.schemas.encode import Frame, framing
from headrace.tiles.admission import failed_check
from headrace.tiles.events import Event, Unreadable, read_event

OPTIONS = JSON | orjson.OPT_SERIALIZE_NUMPY
PLAIN = (str, int, float, dict, list, np.generic, type(None))
Row = Mapping[str, Any]


class Encoder(Protocol):
    """Writes rows of one stream."""

    def encode(self, row: Row) -> tuple[bytes, Event]:
        """A row as the log takes it, and as the gate will read it; raises `Unreadable` where it would not."""


def encoder_of(stream: Stream) -> Encoder:
    """Who writes the rows of a stream: as JSON, and as its registry's format where it has one."""
    plain = JsonEncoder(stream)
    return plain if stream.encoded is None else FramingEncoder(plain, framing(stream))


class JsonEncoder:
    """Writes rows as JSON, and reads each again as the gate does: what it would refuse is refused here."""

    def __init__(self, stream: Stream) -> None:
        self._stream = stream
        self._doubles = {column.name for column in stream.schema if column.kind is Kind.DOUBLE}

    def encode(self, row: Row) -> tuple[bytes, Event]:
        try:
            value = orjson.dumps({name: self._told(name, row[name]) for name in row}, option=OPTIONS)
        except TypeError as problem:
            raise Unreadable(f"not-json: {problem}") from problem
        event = read_event(self._stream.schema, value)
        require_fit(self._stream, event)
        return value, event

    def _told(self, name: str, value: Any) -> Any:
        """A value as JSON can say it; a double for which it has no word is text, and nothing else may be such a one."""
        if isinstance(value, datetime):
            return value if type(value) is datetime else value.isoformat()  # pandas has moments of its own
        if isinstance(value, float | np.floating) and not isfinite(value):
            if name not in self._doubles:
                raise Unreadable(f"wrong-type: column {name} is {value}, which only a double can be")
            return "NaN" if isnan(value) else "Infinity" if value > 0 else "-Infinity"
        if not isinstance(value, PLAIN):
            raise Unreadable(
                f"wrong-type: column {name} is neither text, a number, a boolean nor a datetime: {value!r:.80}"
            )
        return value


class FramingEncoder:
    """Writes rows as another encoder does, then in the format of their stream."""

    def __init__(self, plain: Encoder, frame: Frame) -> None:
        self._plain, self._frame = plain, frame

    def encode(self, row: Row) -> tuple[bytes, Event]:
        value, event = self._plain.encode(row)
        return self._frame(value), event


def require_fit(stream: Stream, event: Event) -> None:
    """Refuse an event that the gate would, whenever it came; what is late, or too far ahead, is for the gate to say."""
    for part, column in stream.needed.items():
        if event[column] is None:
            raise Unreadable(f"missing-{part}: column {column} is absent or null")
    if failed_check(stream, [event])[0]:
        raise Unreadable(f"failed-check: {stream.check}")
