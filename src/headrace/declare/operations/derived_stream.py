"""Derived streams: streams whose raw topic Headrace itself writes, from other streams.

payments.clean ──┐
                 ├──derivation──▶ abroad ──gate──▶ abroad.clean ──▶ views, models, other derivations
rates.clean ─────┘                        ├──▶ abroad.late
                                          └──▶ abroad.dead

A derived stream has a gate of its own, like one from outside: schema, check, lateness, dead letters, deduplication.
So every consumer of streams can read a derived one.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from headrace.declare.names import late_output_table, query_name, topic_name
from headrace.declare.source_location import SourceLocation
from headrace.declare.streams.stream import Stream

RequestedLane = Literal["auto", "real-time", "micro-batch"]

KNOWN_AT = (
    "known_at"  # the column with the time at which a derived event could first be known: the arrival of its input
)


@dataclass(frozen=True)
class Derivation:
    """A query that computes derived streams from other streams."""

    name: str
    inputs: tuple[Stream, ...]
    location: SourceLocation

    @property
    def query(self) -> str:
        return query_name(self.name, "derive")


@dataclass(frozen=True)
class FunctionDerivation(Derivation):
    """A PySpark function of the DataFrames of its inputs, and the requested lane.

    `side_input` returns what its result holds besides them, the rows of a table: when that changes, the function is
    called again.
    """

    function: Callable[..., Any]
    lane: RequestedLane = "auto"
    side_input: Callable[[], object] | None = None


@dataclass(frozen=True)
class StreamOperation(Derivation):
    """A keyed operator over the events of its inputs: a window, a pattern, a join.

    `by` names the key's columns in each input; `idle_us` is how long the clock may stand still without events; an event
    with a null key is skipped unless `accepts_null_keys`.
    """

    by: tuple[tuple[str, ...], ...]
    spec: Any  # the operator's declaration, a value that headrace.operators turns into an operator
    idle_us: int
    accepts_null_keys: bool = False

    @property
    def clock(self) -> str:
        """The topic that carries its clock."""
        return topic_name(self.name, "clock")


@dataclass(frozen=True, init=False)
class DerivedStream(Stream):
    """A stream that a derivation writes: its output of this name."""

    made_by: Derivation
    output: str

    def __init__(self, name: str, *, made_by: Derivation, output: str = "out", **settings: Any) -> None:
        super().__init__(name, **settings)
        object.__setattr__(self, "made_by", made_by)
        object.__setattr__(self, "output", output)

    @property
    def lake_name(self) -> str:
        """Its name, unless a table of the stream beside it has that name."""
        is_late_side = self.output == "late" and self.name == f"{self.made_by.name}_late"
        return late_output_table(self.made_by.name) if is_late_side else self.name

    @property
    def is_recorded(self) -> bool:
        """Whether its inputs are recorded history."""
        return has_recorded_input(self.made_by.inputs)

    @property
    def is_captured(self) -> bool:
        """Whether all its inputs are captured tables."""
        return all(stream.is_captured for stream in self.made_by.inputs)


def has_recorded_input(inputs: Sequence[Stream]) -> bool:
    """Whether streams have the time of recorded history; captured tables follow the other streams, if there are any."""
    uncaptured = [stream for stream in inputs if not stream.is_captured]
    return any(stream.is_recorded for stream in uncaptured or inputs)
