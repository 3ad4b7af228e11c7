"""The declaration of a pattern as a value: ordered steps, events that must not come between, and the time limit.

fail ×3 ──then──▶ success        A match assigns events to each step, in the order of their times; docs/patterns.md
   never: reset between          defines which.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Literal

from headrace.declare.expressions import Expression, field_names, step_column_name
from headrace.declare.streams.schema import Column, Schema

Contiguity = Literal["next", "then", "then_any"]
SkipStrategy = Literal["skip_past_last", "skip_to_next", "no_skip"]
POSITIONS = ("first", "last")


@dataclass(frozen=True)
class Step:
    """A step of a match: its condition, how many events it takes, and its contiguity to the step before.

    next        the very next event of the key
    then        the next one that is such an event
    then_any    any later one that is such an event
    """

    name: str
    where: Expression
    near: Contiguity
    least: int = 1
    most: int | None = 1
    repeat: Contiguity = "then"
    optional: bool = False
    reluctant: bool = False
    keep: tuple[str, ...] = ()


@dataclass(frozen=True)
class Never:
    """Events that must not come between the steps before it and the step of number `before`."""

    name: str
    where: Expression
    before: int


@dataclass(frozen=True)
class StepReference:
    """A column of the first or last event that a step has matched so far, as a condition reads it."""

    position: str
    step_number: int
    column: str
    name: str


@dataclass(frozen=True)
class Sequence:
    """Steps, exclusions, the time from first to last event, and the skip strategy."""

    title: str
    name: str
    stream: str
    key: tuple[str, ...]
    schema: Schema
    steps: tuple[Step, ...]
    nevers: tuple[Never, ...]
    within_us: int
    after: SkipStrategy
    patience_us: int  # how late an event may be and still count
    partials: int

    @property
    def conditions(self) -> tuple[Expression, ...]:
        """All conditions on an event: first those of the steps, then those of the exclusions."""
        return (*(step.where for step in self.steps), *(never.where for never in self.nevers))

    @property
    def references(self) -> tuple[StepReference, ...]:
        """The columns of earlier events that conditions read."""
        read_names = set().union(*map(field_names, self.conditions))
        return tuple(
            reference
            for reference in list_references(self.schema, [step.name for step in self.steps])
            if reference.name in read_names
        )

    @property
    def retained_columns(self) -> tuple[str, ...]:
        """The columns of an event that are kept after it matched: for later conditions, or for the output."""
        retained_names = {column for step in self.steps for column in step.keep} | {
            reference.column for reference in self.references
        }
        for tree in self.conditions:
            if not field_names(tree) <= set(self.schema.names):
                retained_names |= field_names(tree)
        return tuple(name for name in self.schema.names if name in retained_names)

    @property
    def readable_schema(self) -> Schema:
        """The columns a condition may read: those of its own event, and those of events that earlier steps matched."""
        return readable_schema(self.schema, [step.name for step in self.steps])


def list_references(schema: Schema, steps: Iterable[str]) -> Iterator[StepReference]:
    """Every reference that conditions may make to events of these steps."""
    for number, step in enumerate(steps):
        for position in POSITIONS:
            for column in schema.names:
                yield StepReference(position, number, column, step_column_name(position, step, column))


def readable_schema(schema: Schema, steps: Iterable[str]) -> Schema:
    """The columns of a stream and those of events that these steps matched."""
    step_columns = (
        Column(reference.name, schema.column(reference.column, "").type) for reference in list_references(schema, steps)
    )
    return Schema((*schema.columns, *step_columns))
