"""The output streams of a pattern: matches, partial matches that timed out, and events that arrived too late."""

import re
from typing import Any, NamedTuple

from headrace.declare.durations import duration_text
from headrace.declare.operations.derived_stream import KNOWN_AT, DerivedStream, StreamOperation
from headrace.declare.operations.pattern_sequence import Sequence
from headrace.declare.streams.stream import Late, Stream
from headrace.errors import DeclarationError

ID, STARTED_AT, ENDED_AT = "id", "started_at", "ended_at"
TypedColumns = list[tuple[str, str]]


class PatternOutputs(NamedTuple):
    """The output streams of a pattern; `late` is None if late events are dropped."""

    out: DerivedStream
    timeouts: DerivedStream
    late: DerivedStream | None


def build_pattern_outputs(
    operation: StreamOperation, sequence: Sequence, *, has_late_output: bool, partitions: int
) -> PatternOutputs:
    """The output streams of an operation that detects a sequence."""
    (stream,) = operation.inputs
    settings: dict[str, Any] = {"made_by": operation, "id": ID, "arrival": KNOWN_AT, "partitions": partitions}
    match_settings = settings | {
        "key": sequence.key[0],
        "time": ENDED_AT,
        "late": Late(_round_up_duration(sequence.patience_us + 1)),
    }
    columns = _match_columns(sequence, stream)
    timeout_columns = [("reached", "string"), ("why", "string")]
    return PatternOutputs(
        DerivedStream(operation.name, schema=_ddl(columns, operation), **match_settings),
        DerivedStream(
            f"{operation.name}_timeouts",
            schema=_ddl([*columns, *timeout_columns], operation),
            output="timeouts",
            **match_settings,
        ),
        _build_late_stream(operation, sequence, settings) if has_late_output else None,
    )


def late_column_names(sequence: Sequence) -> dict[str, str]:
    """The column names of late events: those that clash with Headrace's own are prefixed with the stream's name."""
    prefix = re.sub(r"\W", "_", sequence.stream, flags=re.ASCII) + "_"
    return {name: prefix + name if name in (ID, KNOWN_AT) else name for name in sequence.schema.names}


def _build_late_stream(operation: StreamOperation, sequence: Sequence, settings: dict[str, Any]) -> DerivedStream:
    (stream,), names = operation.inputs, late_column_names(sequence)
    columns = [(names[column.name], column.type) for column in stream.schema]
    return DerivedStream(
        f"{operation.name}_late",
        schema=_ddl([(ID, "string"), *columns, (KNOWN_AT, "timestamp")], operation),
        key=names[stream.key],
        time=names[stream.time],
        late=Late(_round_up_duration(stream.late.until_us)),
        output="late",
        **settings,
    )


def _match_columns(sequence: Sequence, stream: Stream) -> TypedColumns:
    """The columns of a match, and of a partial match that timed out."""
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


def _ddl(columns: TypedColumns, operation: StreamOperation) -> str:
    names = [name for name, _ in columns]
    for name in names:
        if names.count(name) > 1:
            raise DeclarationError(
                f"{operation.location}: two columns of its matches would be called {name!r}. Rename a step, or "
                f"keep= less."
            )
    return ", ".join(f"`{name}` {type}" for name, type in columns)


def _round_up_duration(length_us: int) -> str:
    """A duration, rounded up to a millisecond."""
    return duration_text(-(-length_us // 1000) * 1000)
