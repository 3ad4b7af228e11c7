"""The streams a join makes: `out`, and `late` for the events it could not wait for."""

from typing import Any, NamedTuple, Protocol

from headrace.declare.derivation import KNOWN_AT, Derived, Operation
from headrace.declare.durations import duration_text
from headrace.declare.join_inputs import EVENT_TIME, ID, RETRACTS, STREAM, Joining
from headrace.declare.stream import Late


class Joined(NamedTuple):
    """The streams of a join: what it made, and the events that came too late for it."""

    out: Derived
    late: Derived


class Retracting(Protocol):
    """What says whether rows may be taken back."""

    @property
    def retracts(self) -> bool: ...


def joined(asked: Joining, what: Retracting, key: str, reach_us: int, idle_us: int, partitions: int) -> Joined:
    """The streams of a join whose rows are known at most so long after their time, and the lateness of its inputs."""
    left_on, right_on = zip(*asked.on, strict=True)
    made_by = Operation(
        asked.name, (asked.left, asked.right), asked.written, by=(left_on, right_on), what=what, idle_us=idle_us
    )
    late_us = max(asked.left.late.until_us, asked.right.late.until_us) + 1
    settings: dict[str, Any] = {
        "made_by": made_by,
        "id": ID,
        "time": EVENT_TIME,
        "arrival": KNOWN_AT,
        "ahead": _text(max(asked.left.ahead_us, asked.right.ahead_us)),
        "partitions": partitions,
    }
    retracts = f", {RETRACTS} string" if what.retracts else ""
    out = Derived(asked.name, schema=_ddl(asked) + retracts, key=key, late=Late(_text(reach_us + late_us)), **settings)
    late = Derived(
        f"{asked.name}_late",
        schema=f"{_ddl(asked)}, {STREAM} string",
        key=ID,
        late=Late(_text(late_us)),
        output="late",
        **settings,
    )
    return Joined(out, late)


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
