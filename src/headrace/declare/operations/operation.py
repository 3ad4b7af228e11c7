"""Derived streams: streams whose raw topic Headrace itself writes, from other streams.

payments.clean ──┐
                 ├──derivation──▶ abroad ──gate──▶ abroad.clean ──▶ views, models, other derivations
rates.clean ─────┘                        ├──▶ abroad.late
                                          └──▶ abroad.dead

What is derived is judged by a gate of its own, like what came from outside: its schema, its check, its lateness, its
dead letters, its duplicates. So whatever reads a stream can read a derived one.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from headrace.declare.names import late_output_table, query_name, topic_name
from headrace.declare.source_location import SourceLocation
from headrace.declare.streams.stream import Stream

RequestedLane = Literal["auto", "real-time", "micro-batch"]

KNOWN_AT = "known_at"  # the column that says when a derived event could first be known: the arrival of what made it


@dataclass(frozen=True)
class Derivation:
    """How derived streams are made: one query, from some streams."""

    name: str
    inputs: tuple[Stream, ...]
    location: SourceLocation

    @property
    def query(self) -> str:
        return query_name(self.name, "derive")


@dataclass(frozen=True)
class FunctionDerivation(Derivation):
    """A PySpark function of the DataFrames of its inputs, and the lane it is asked to run in.

    `held` tells what its result holds besides them, the rows of a table: when that is another one, it is called anew.
    """

    function: Callable[..., Any]
    lane: RequestedLane = "auto"
    side_input: Callable[[], object] | None = None


@dataclass(frozen=True)
class StreamOperation(Derivation):
    """An operator over the events of its inputs, by key: a window, a pattern, a join.

    `by` names the key's columns in each input; `idle_us` is how long the clock may stand where nothing comes; an event
    whose key is null is passed over, but where `null_keys` are taken too.
    """

    by: tuple[tuple[str, ...], ...]
    spec: Any  # what to do with the events of a key, as a value of its own: headrace.operators makes an operator of it
    idle_us: int
    accepts_null_keys: bool = False

    @property
    def clock(self) -> str:
        """The topic in which it is told the time."""
        return topic_name(self.name, "clock")


@dataclass(frozen=True, init=False)
class DerivedStream(Stream):
    """A stream that a derivation writes: the one of its outputs that is named so."""

    made_by: Derivation
    output: str

    def __init__(self, name: str, *, made_by: Derivation, output: str = "out", **settings: Any) -> None:
        super().__init__(name, **settings)
        object.__setattr__(self, "made_by", made_by)
        object.__setattr__(self, "output", output)

    @property
    def lake_name(self) -> str:
        """Its name, but where a table of the stream beside it is called so."""
        is_late_side = self.output == "late" and self.name == f"{self.made_by.name}_late"
        return late_output_table(self.made_by.name) if is_late_side else self.name

    @property
    def is_recorded(self) -> bool:
        """Whether what it is derived from is."""
        return has_recorded_input(self.made_by.inputs)

    @property
    def is_captured(self) -> bool:
        """Whether all it is derived from is."""
        return all(stream.is_captured for stream in self.made_by.inputs)


def has_recorded_input(inputs: Sequence[Stream]) -> bool:
    """Whether time passes for streams as it did in recorded history; beside others, a captured table goes by theirs."""
    uncaptured = [stream for stream in inputs if not stream.is_captured]
    return any(stream.is_recorded for stream in uncaptured or inputs)
