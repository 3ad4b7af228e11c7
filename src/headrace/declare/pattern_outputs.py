"""The streams of a pattern: its matches, the beginnings of which none came in time, and what came too late to count."""

import re
from typing import Any, NamedTuple

from headrace.declare.derivation import KNOWN_AT, Derived, Operation
from headrace.declare.durations import duration_text
from headrace.declare.sequence import Sequence
from headrace.declare.stream import Late, Stream
from headrace.errors import DeclarationError

ID, STARTED_AT, ENDED_AT = "id", "started_at", "ended_at"
Columns = list[tuple[str, str]]


class Matches(NamedTuple):
    """The streams of a pattern's matches; `late` is none where late events are dropped."""

    out: Derived
    timeouts: Derived
    late: Derived | None


def matches(made_by: Operation, sequence: Sequence, *, puts_aside: bool, partitions: int) -> Matches:
    """The streams of an operation that looks for a sequence."""
    (stream,) = made_by.inputs
    settings: dict[str, Any] = {"made_by": made_by, "id": ID, "arrival": KNOWN_AT, "partitions": partitions}
    told = settings | {"key": sequence.key[0], "time": ENDED_AT, "late": Late(_text(sequence.patience_us + 1))}
    columns = _columns(sequence, stream)
    how_far = [("reached", "string"), ("why", "string")]
    return Matches(
        Derived(made_by.name, schema=_ddl(columns, made_by), **told),
        Derived(f"{made_by.name}_timeouts", schema=_ddl([*columns, *how_far], made_by), output="timeouts", **told),
        _late(made_by, sequence, settings) if puts_aside else None,
    )


def late_names(sequence: Sequence) -> dict[str, str]:
    """What a stream's columns are called among late events: those that have names of ours with the stream's before."""
    prefix = re.sub(r"\W", "_", sequence.stream, flags=re.ASCII) + "_"
    return {name: prefix + name if name in (ID, KNOWN_AT) else name for name in sequence.schema.names}


def _late(made_by: Operation, sequence: Sequence, settings: dict[str, Any]) -> Derived:
    (stream,), names = made_by.inputs, late_names(sequence)
    columns = [(names[column.name], column.type) for column in stream.schema]
    return Derived(
        f"{made_by.name}_late",
        schema=_ddl([(ID, "string"), *columns, (KNOWN_AT, "timestamp")], made_by),
        key=names[stream.key],
        time=names[stream.time],
        late=Late(_text(stream.late.until_us)),
        output="late",
        **settings,
    )


def _columns(sequence: Sequence, stream: Stream) -> Columns:
    """What is told of a match, and of what might have become one."""
    schema = stream.schema
    columns = [(ID, "string"), *((name, schema.column(name, "").type) for name in sequence.key)]
    columns += [("pattern", "string"), (STARTED_AT, "timestamp"), (ENDED_AT, "timestamp"), (KNOWN_AT, "timestamp")]
    columns += [("events", "bigint")]
    id_type = schema.column(stream.id, "").type
    for step in sequence.steps:
        columns += [(f"{step.name}_count", "bigint")]
        columns += [(f"{step.name}_first_id", id_type), (f"{step.name}_last_id", id_type)]
        columns += [(f"{step.name}_{column}", schema.column(column, "").type) for column in step.keep]
    return columns


def _ddl(columns: Columns, made_by: Operation) -> str:
    names = [name for name, _ in columns]
    for name in names:
        if names.count(name) > 1:
            raise DeclarationError(
                f"{made_by.written}: two columns of its matches would be called {name!r}. Rename a step, or keep= less."
            )
    return ", ".join(f"`{name}` {type}" for name, type in columns)


def _text(length_us: int) -> str:
    """A duration, to the next millisecond."""
    return duration_text(-(-length_us // 1000) * 1000)
