"""The streams a join makes: `out`, and `late` for the events it could not wait for."""

from typing import Any, NamedTuple, Protocol

from headrace.declare.derivation import KNOWN_AT, Derived, Operation
from headrace.declare.durations import duration_text
from headrace.declare.join_inputs import EVENT_TIME, ID, KIND, RETRACTS, STREAM, Joining, Side
from headrace.declare.stream import Late, LatePolicy
from headrace.errors import DeclarationError


class Joined(NamedTuple):
    """The streams of a join: what it made, and the events that came too late for it."""

    out: Derived
    late: Derived


class Waiting(Protocol):
    """What says how late the events of a join may be, and whether its rows may be taken back."""

    @property
    def left(self) -> Side: ...
    @property
    def right(self) -> Side: ...
    @property
    def then(self) -> LatePolicy: ...
    @property
    def retracts(self) -> bool: ...


def joined(asked: Joining, what: Waiting, key: str, *, reach_us: int, idle_us: int, partitions: int) -> Joined:
    """The streams of a join whose rows are known at most so long after their time, and the lateness of its inputs."""
    left_on, right_on = zip(*asked.on, strict=True)
    inputs = asked.left, asked.right
    made_by = Operation(
        asked.name,
        inputs,
        asked.written,
        by=(left_on, right_on),
        what=what,
        idle_us=idle_us,
        null_keys=what.left.outer or what.right.outer,
    )
    late_us = max(stream.late.until_us for stream in inputs) + 1
    settings: dict[str, Any] = {
        "made_by": made_by,
        "id": ID,
        "time": EVENT_TIME,
        "arrival": KNOWN_AT,
        "ahead": _text(max(stream.ahead_us for stream in inputs)),
        "partitions": partitions,
    }
    columns, retracts = _ddl(asked), f", {KIND} string, {RETRACTS} string" if what.retracts else ""
    of_late: dict[str, Any] = {
        "schema": f"{columns}, {STREAM} string",
        "key": ID,
        "late": Late(_text(late_us)),
        "output": "late",
    }
    try:
        return Joined(
            Derived(asked.name, schema=columns + retracts, key=key, late=_late(what, reach_us), **settings),
            Derived(f"{asked.name}-late", **settings, **of_late),
        )
    except DeclarationError as refused:
        raise DeclarationError(f"{asked.written}: {refused}") from refused


def _late(what: Waiting, reach_us: int) -> Late:
    """Rows are as late as the events they wait for: whatever is made passes the gate, corrections as such."""
    after = _text(reach_us + max(what.left.after_us, what.right.after_us) + 1)
    if what.then != "update":
        return Late(after)
    return Late(after, then="update", until=_text(reach_us + max(what.left.until_us, what.right.until_us) + 1))


def _ddl(asked: Joining) -> str:
    types = [
        (output, stream.schema.column(column, asked.where).type)
        for stream, names in ((asked.left, asked.left_columns), (asked.right, asked.right_columns))
        for column, output in names
    ]
    own = [(ID, "string"), *types, (EVENT_TIME, "timestamp"), (KNOWN_AT, "timestamp")]
    return ", ".join(f"`{name}` {type}" for name, type in own)


def _text(length_us: int) -> str:
    """A duration, to the next millisecond."""
    return duration_text(-(-length_us // 1000) * 1000)
