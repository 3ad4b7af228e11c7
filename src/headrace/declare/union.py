"""Several streams as one: SQL's UNION BY NAME of their columns, and one more that names the stream of each event.

payments   id  card  amount                  id    card  amount  reason  stream
refunds    id  card  amount  reason   ──▶    p1    c1    90.0    null    payments
                                             r1    c1    90.0    late    refunds
"""

from collections.abc import Sequence
from itertools import combinations

from headrace.declare.schema import TYPES, Column, Schema
from headrace.declare.stream import Stream
from headrace.errors import DeclarationError

STREAM = "stream"
_WIDTHS = tuple(TYPES)  # of two types of one kind the later one holds every value of the other


def streams_of(given: object, where: str) -> tuple[Stream, ...]:
    """The streams a view is declared on, once they fit together."""
    listed = tuple(given) if isinstance(given, list | tuple) else (given,)
    if not listed:
        raise DeclarationError(f"{where}: {given!r} names no stream. Write @hr.features([payments, refunds], by=…).")
    streams = tuple(_stream(one, where) for one in listed)
    if len(streams) > 1:
        _require_alike(streams, where)
    return streams


def schema_of(streams: Sequence[Stream]) -> Schema:
    """The columns of the events of some streams: of one its own, of several all they have and the stream's name."""
    if len(streams) == 1:
        return streams[0].schema
    types: dict[str, str] = {}
    for column in (column for stream in streams for column in stream.schema):
        types[column.name] = max(types.get(column.name, column.type), column.type, key=_WIDTHS.index)
    return Schema((*(Column(name, type) for name, type in types.items()), Column(STREAM, "string")))


def require_in_all(column: str, streams: Sequence[Stream], where: str) -> None:
    """Refuse to group by a column that some of several streams do not have."""
    for stream in streams:
        if column not in stream.schema and column != STREAM:
            raise DeclarationError(
                f"{where}: by={column!r}, and stream {stream.name!r} has no such column, only "
                f"{', '.join(stream.schema.names)}. Add it to that stream, or group by a column that all of them have."
            )


def _stream(one: object, where: str) -> Stream:
    if not isinstance(one, Stream):
        raise DeclarationError(
            f"{where}: {one!r} is not a stream. Write @hr.features(payments, by=…) with an hr.Stream."
        )
    return one


def _require_alike(streams: Sequence[Stream], where: str) -> None:
    for stream in streams:
        if STREAM in stream.schema:
            raise DeclarationError(
                f"{where}: stream {stream.name!r} has a column {STREAM!r}, which in a view of several streams is the "
                "name of each event's stream. Rename the column, or declare the view on that stream alone."
            )
    for one, other in combinations(streams, 2):
        if one.name == other.name:
            raise DeclarationError(f"{where}: stream {one.name!r} is listed twice. List each stream once.")
        _require_alike_columns(one, other, where)


def _require_alike_columns(one: Stream, other: Stream, where: str) -> None:
    shared = [name for name in one.schema.names if name in other.schema]
    for name in shared:
        _require_one_kind(f"{where}: column {name!r}", (one, name), (other, name), "rename it in one of them")
    reason = "of two events at one time the one with the smaller id is the first"
    _require_one_kind(f"{where}: the id", (one, one.id), (other, other.id), f"name others with id=: {reason}")


def _require_one_kind(what: str, one: tuple[Stream, str], other: tuple[Stream, str], remedy: str) -> None:
    found = [stream.schema.column(name, what) for stream, name in (one, other)]
    if found[0].kind is not found[1].kind:
        raise DeclarationError(
            f"{what} is {found[0].type} in stream {one[0].name!r} and {found[1].type} in stream {other[0].name!r}. "
            f"Declare both as one kind of type, or {remedy}."
        )
