"""Unions of streams: SQL's UNION BY NAME of their columns, and one more with the name of each event's stream.

payments   id  card  amount                  id    card  amount  reason  stream
refunds    id  card  amount  reason   ──▶    p1    c1    90.0    null    payments
                                             r1    c1    90.0    late    refunds
"""

from collections.abc import Sequence
from itertools import combinations

from headrace.declare.streams.schema import KIND_OF_TYPE, Column, Schema
from headrace.declare.streams.stream import Stream
from headrace.errors import DeclarationError

STREAM_COLUMN = "stream"
_TYPES_BY_WIDTH = tuple(
    KIND_OF_TYPE
)  # of two types of one kind, the later one in this order holds every value of the other


def parse_streams(declared: object, where: str) -> tuple[Stream, ...]:
    """The streams a view is declared on, after checking that they fit together."""
    candidates = tuple(declared) if isinstance(declared, list | tuple) else (declared,)
    if not candidates:
        raise DeclarationError(f"{where}: {declared!r} names no stream. Write @hr.features([payments, refunds], by=…).")
    streams = tuple(_require_stream(candidate, where) for candidate in candidates)
    if len(streams) > 1:
        _require_compatible_streams(streams, where)
    return streams


def union_schema(streams: Sequence[Stream]) -> Schema:
    """The schema of one stream's events, or of the union of several, with the column of the stream's name."""
    if len(streams) == 1:
        return streams[0].schema
    types: dict[str, str] = {}
    for column in (column for stream in streams for column in stream.schema):
        types[column.name] = max(types.get(column.name, column.type), column.type, key=_TYPES_BY_WIDTH.index)
    return Schema((*(Column(name, type) for name, type in types.items()), Column(STREAM_COLUMN, "string")))


def require_column_in_all(column: str, streams: Sequence[Stream], where: str) -> None:
    """Refuse to group by a column that some of the streams lack."""
    for stream in streams:
        if column not in stream.schema and column != STREAM_COLUMN:
            raise DeclarationError(
                f"{where}: by={column!r}, and stream {stream.name!r} has no such column, only "
                f"{', '.join(stream.schema.names)}. Add it to that stream, or group by a column that all of them have."
            )


def _require_stream(value: object, where: str) -> Stream:
    if not isinstance(value, Stream):
        raise DeclarationError(
            f"{where}: {value!r} is not a stream. Write @hr.features(payments, by=…) with an hr.Stream."
        )
    return value


def _require_compatible_streams(streams: Sequence[Stream], where: str) -> None:
    for stream in streams:
        if STREAM_COLUMN in stream.schema:
            raise DeclarationError(
                f"{where}: stream {stream.name!r} has a column {STREAM_COLUMN!r}, which in a view of several "
                f"streams is the "
                "name of each event's stream. Rename the column, or declare the view on that stream alone."
            )
    for first, second in combinations(streams, 2):
        if first.name == second.name:
            raise DeclarationError(f"{where}: stream {first.name!r} is listed twice. List each stream once.")
        _require_compatible_columns(first, second, where)


def _require_compatible_columns(first: Stream, second: Stream, where: str) -> None:
    shared = [name for name in first.schema.names if name in second.schema]
    for name in shared:
        _require_same_kind(f"{where}: column {name!r}", (first, name), (second, name), "rename it in one of them")
    reason = "of two events at one time the one with the smaller id is the first"
    _require_same_kind(f"{where}: the id", (first, first.id), (second, second.id), f"name others with id=: {reason}")


def _require_same_kind(subject: str, first: tuple[Stream, str], second: tuple[Stream, str], remedy: str) -> None:
    columns = [stream.schema.column(name, subject) for stream, name in (first, second)]
    if columns[0].kind is not columns[1].kind:
        raise DeclarationError(
            f"{subject} is {columns[0].type} in stream {first[0].name!r} and {columns[1].type} in stream "
            f"{second[0].name!r}. "
            f"Declare both as one kind of type, or {remedy}."
        )
