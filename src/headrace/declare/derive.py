"""`@hr.derive(payments)`: a PySpark function of DataFrames becomes a stream of its own.

payments.clean ──▶ function(payments) ──▶ abroad ──gate──▶ abroad.clean
 its columns and known_at                  the declared columns, known_at among them
"""

from collections.abc import Callable, Sequence
from typing import Any, get_args

from headrace.declare.derivation import KNOWN_AT, AskedLane, Derived, FunctionOf
from headrace.declare.durations import duration_text
from headrace.declare.schema import Schema, parse_schema
from headrace.declare.source_lines import Written, written_here
from headrace.declare.stream import Late, Stream
from headrace.errors import DeclarationError

Function = Callable[..., Any]
NEEDED = ("schema", "id", "key", "time")  # what only one parent can lend


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
    lane: AskedLane = "auto",
) -> Callable[[Function], Derived]:
    """Declare a derived stream: the decorated function makes it of the DataFrames of its parents.

    Of one parent it has the columns, the id, the key and the time, where nothing else is said.
    """
    written = written_here()
    _require_streams(parents, written)
    if lane not in get_args(AskedLane):
        raise DeclarationError(
            f"{written}: lane={lane!r} is none. Write {', '.join(map(repr, get_args(AskedLane)))}, or leave it out."
        )
    said = {"schema": schema, "id": id, "key": key, "time": time}

    def declare(function: Function) -> Derived:
        own = str(name or function.__name__)
        _require_said(own, parents, said, written)
        known = arrival or KNOWN_AT
        settings: dict[str, Any] = _lent(parents, late) | {
            "schema": _with_arrival(schema or _columns_of(parents[0], own, written), known),
            **{word: said[word] or getattr(parents[0], word) for word in ("id", "key", "time")},
            "partitions": partitions or max(parent.partitions for parent in parents),
        }
        made_by = FunctionOf(own, parents, written, function, lane)
        try:
            return Derived(own, made_by=made_by, arrival=known, check=check, **settings)
        except DeclarationError as refused:
            raise DeclarationError(f"{written}: {refused}") from refused

    return declare


def _require_streams(parents: Sequence[object], written: Written) -> None:
    """Refuse what is no list of different streams."""
    for parent in parents:
        if not isinstance(parent, Stream):
            told = getattr(parent, "__name__", repr(parent))
            raise DeclarationError(
                f"{written}: @hr.derive: {told} is not a stream. Write @hr.derive(payments) with an hr.Stream."
            )
        if parents.count(parent) > 1:
            raise DeclarationError(
                f"{written}: @hr.derive: stream {parent.name!r} is listed twice. "
                "List it once: a function may use its DataFrame as often as it likes."
            )
    if not parents:
        raise DeclarationError(f"{written}: @hr.derive() has no stream. Write @hr.derive(payments).")


def _require_said(name: str, parents: Sequence[Stream], said: dict[str, str | None], written: Written) -> None:
    """Of several parents none is the one whose columns it has."""
    missing = [word for word in NEEDED if said[word] is None]
    if len(parents) > 1 and missing:
        raise DeclarationError(
            f"{written}: {name} is derived from {len(parents)} streams and has no {', '.join(missing)}. "
            f"Write {', '.join(f'{word}=…' for word in missing)}: of one parent it would have its own."
        )


def _columns_of(parent: Stream, name: str, written: Written) -> str:
    """The parent's columns; what it calls known_at must be its arrival."""
    if KNOWN_AT in parent.schema and parent.arrival != KNOWN_AT:
        raise DeclarationError(
            f"{written}: {name}: stream {parent.name!r} has a column {KNOWN_AT!r} of its own, which is the name of "
            "its events' arrival here. Rename that column."
        )
    return _ddl(parent.schema)


def _with_arrival(schema: str, arrival: str) -> str:
    """The schema, with the arrival where it does not name it."""
    columns = parse_schema(schema, "schema")
    return schema if arrival in columns else f"{schema}, `{arrival}` timestamp"


def _ddl(schema: Schema) -> str:
    return ", ".join(f"`{column.name}` {column.type}" for column in schema)


def _lent(parents: Sequence[Stream], late: Late | None) -> dict[str, Any]:
    """What is the parents' where nothing is said: whatever their gates let through is on time here."""
    patient = max((parent.late for parent in parents), key=lambda one: one.until_us)
    return {"late": late or patient, "ahead": duration_text(max(parent.ahead_us for parent in parents))}
