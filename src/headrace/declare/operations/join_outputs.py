"""The output streams of a join: `out`, and `late` for events that arrive too late for it."""

from typing import Any, NamedTuple, Protocol

from headrace.declare.durations import duration_text
from headrace.declare.operations.derived_stream import KNOWN_AT, DerivedStream, StreamOperation
from headrace.declare.operations.join_inputs import EVENT_TIME, ID, KIND, RETRACTS, STREAM, JoinRequest, Side
from headrace.declare.streams.stream import Late, LatePolicy
from headrace.errors import DeclarationError


class JoinOutputs(NamedTuple):
    """The output streams of a join: its rows, and the events that arrived too late."""

    out: DerivedStream
    late: DerivedStream


class JoinSpec(Protocol):
    """The parts of a join's declaration that bound the lateness of its events and say whether it retracts rows."""

    @property
    def left(self) -> Side: ...
    @property
    def right(self) -> Side: ...
    @property
    def then(self) -> LatePolicy: ...
    @property
    def retracts(self) -> bool: ...


def build_join_outputs(
    request: JoinRequest, spec: JoinSpec, key: str, *, output_delay_us: int, idle_us: int, partitions: int
) -> JoinOutputs:
    """The output streams of a join, from the bound on a row's delay after its time and the lateness of the inputs."""
    left_keys, right_keys = zip(*request.on, strict=True)
    inputs = request.left, request.right
    operation = StreamOperation(
        request.name,
        inputs,
        request.location,
        by=(left_keys, right_keys),
        spec=spec,
        idle_us=idle_us,
        accepts_null_keys=spec.left.outer or spec.right.outer,
    )
    late_output_delay_us = max(stream.late.until_us for stream in inputs) + 1
    settings: dict[str, Any] = {
        "made_by": operation,
        "id": ID,
        "time": EVENT_TIME,
        "arrival": KNOWN_AT,
        "ahead": _round_up_duration(max(stream.ahead_us for stream in inputs)),
        "partitions": partitions,
    }
    columns, retraction_columns = _ddl(request), f", {KIND} string, {RETRACTS} string" if spec.retracts else ""
    late_settings: dict[str, Any] = {
        "schema": f"{columns}, {STREAM} string",
        "key": ID,
        "late": Late(_round_up_duration(late_output_delay_us)),
        "output": "late",
    }
    try:
        return JoinOutputs(
            DerivedStream(
                request.name,
                schema=columns + retraction_columns,
                key=key,
                late=_output_late_policy(spec, output_delay_us),
                **settings,
            ),
            DerivedStream(f"{request.name}-late", **settings, **late_settings),
        )
    except DeclarationError as error:
        raise DeclarationError(f"{request.location}: {error}") from error


def _output_late_policy(spec: JoinSpec, output_delay_us: int) -> Late:
    """Rows are as late as the events they wait for: the gate accepts all of them, corrections as such."""
    after = _round_up_duration(output_delay_us + max(spec.left.after_us, spec.right.after_us) + 1)
    if spec.then != "update":
        return Late(after)
    return Late(
        after,
        then="update",
        until=_round_up_duration(output_delay_us + max(spec.left.until_us, spec.right.until_us) + 1),
    )


def _ddl(request: JoinRequest) -> str:
    typed_columns = [
        (output, stream.schema.column(column, request.where).type)
        for stream, mapping in ((request.left, request.left_columns), (request.right, request.right_columns))
        for column, output in mapping
    ]
    all_columns = [(ID, "string"), *typed_columns, (EVENT_TIME, "timestamp"), (KNOWN_AT, "timestamp")]
    return ", ".join(f"`{name}` {type}" for name, type in all_columns)


def _round_up_duration(length_us: int) -> str:
    """A duration, rounded up to a millisecond."""
    return duration_text(-(-length_us // 1000) * 1000)
