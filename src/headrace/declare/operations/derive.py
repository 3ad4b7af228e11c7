"""`@hr.derive(payments)`: a PySpark function on DataFrames becomes a stream.

payments.clean ──▶ function(payments) ──▶ abroad ──gate──▶ abroad.clean
 its columns and known_at                  the declared columns, known_at among them
"""

from collections.abc import Callable, Sequence
from typing import Any, get_args

from headrace.declare.durations import duration_text
from headrace.declare.operations.derived_stream import KNOWN_AT, DerivedStream, FunctionDerivation, RequestedLane
from headrace.declare.source_location import SourceLocation, locate_caller
from headrace.declare.streams.schema import Schema, parse_schema
from headrace.declare.streams.stream import Late, Stream
from headrace.errors import DeclarationError

DataFrameFunction = Callable[..., Any]
INHERITED_SETTINGS = ("schema", "id", "key", "time")  # settings that default to those of a single parent


def derive(
    *parents: Stream,
    name: str | None = None,
    schema: str | None = None,
    id: str | None = None,
    key: str | None = None,
    time: str | None = None,
    arrival: str | None = None,
    late: Late | None = None,
    check: str | None = None,
    partitions: int | None = None,
    lane: RequestedLane = "auto",
) -> Callable[[DataFrameFunction], DerivedStream]:
    """Declare a derived stream: the decorated function computes it from the DataFrames of its parents.

    With one parent it inherits columns, id, key and time that are not given.
    """
    location = locate_caller()
    _require_streams(parents, location)
    if lane not in get_args(RequestedLane):
        raise DeclarationError(
            f"{location}: lane={lane!r} is none. Write {', '.join(map(repr, get_args(RequestedLane)))}, or "
            f"leave it out."
        )
    given_settings = {"schema": schema, "id": id, "key": key, "time": time}

    def declare(function: DataFrameFunction) -> DerivedStream:
        stream_name = str(name or function.__name__)
        _require_given_settings(stream_name, parents, given_settings, location)
        arrival_column = arrival or KNOWN_AT
        settings: dict[str, Any] = _lateness_settings(parents, late) | {
            "schema": _add_arrival_column(schema or _parent_ddl(parents[0], stream_name, location), arrival_column),
            **{setting: given_settings[setting] or getattr(parents[0], setting) for setting in ("id", "key", "time")},
            "partitions": partitions or max(parent.partitions for parent in parents),
        }
        derivation = FunctionDerivation(stream_name, parents, location, function, lane)
        try:
            return DerivedStream(stream_name, made_by=derivation, arrival=arrival_column, check=check, **settings)
        except DeclarationError as error:
            raise DeclarationError(f"{location}: {error}") from error

    return declare


def _require_streams(parents: Sequence[object], location: SourceLocation) -> None:
    """Refuse anything but a list of distinct streams."""
    for parent in parents:
        if not isinstance(parent, Stream):
            parent_name = getattr(parent, "__name__", repr(parent))
            raise DeclarationError(
                f"{location}: @hr.derive: {parent_name} is not a stream. Write @hr.derive(payments) with an hr.Stream."
            )
        if parents.count(parent) > 1:
            raise DeclarationError(
                f"{location}: @hr.derive: stream {parent.name!r} is listed twice. "
                "List it once: a function may use its DataFrame as often as it likes."
            )
    if not parents:
        raise DeclarationError(f"{location}: @hr.derive() has no stream. Write @hr.derive(payments).")


def _require_given_settings(
    name: str, parents: Sequence[Stream], given_settings: dict[str, str | None], location: SourceLocation
) -> None:
    """With several parents, there is none to inherit settings from."""
    missing = [setting for setting in INHERITED_SETTINGS if given_settings[setting] is None]
    if len(parents) > 1 and missing:
        raise DeclarationError(
            f"{location}: {name} is derived from {len(parents)} streams and has no {', '.join(missing)}. "
            f"Write {', '.join(f'{word}=…' for word in missing)}: of one parent it would have its own."
        )


def _parent_ddl(parent: Stream, name: str, location: SourceLocation) -> str:
    """The parent's columns; a column named known_at must be its arrival."""
    if KNOWN_AT in parent.schema and parent.arrival != KNOWN_AT:
        raise DeclarationError(
            f"{location}: {name}: stream {parent.name!r} has a column {KNOWN_AT!r} of its own, which is the name of "
            "its events' arrival here. Rename that column."
        )
    return _ddl(parent.schema)


def _add_arrival_column(schema: str, arrival: str) -> str:
    """The schema, with the arrival column added if it is missing."""
    columns = parse_schema(schema, "schema")
    return schema if arrival in columns else f"{schema}, `{arrival}` timestamp"


def _ddl(schema: Schema) -> str:
    return ", ".join(f"`{column.name}` {column.type}" for column in schema)


def _lateness_settings(parents: Sequence[Stream], late: Late | None) -> dict[str, Any]:
    """The parents' settings by default: events that pass their gates are on time here."""
    most_lenient = max((parent.late for parent in parents), key=lambda late_policy: late_policy.until_us)
    return {"late": late or most_lenient, "ahead": duration_text(max(parent.ahead_us for parent in parents))}
