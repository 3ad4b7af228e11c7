"""What a pattern looks for, as a value: steps in their order, what must not come between them, and in what time.

fail ×3 ──then──▶ success        A match gives each step some events, in the order of their times; docs/patterns.md
   never: reset between          says which do.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Literal

from headrace.declare.expressions import Expression, fields, of_step
from headrace.declare.schema import Column, Schema

Near = Literal["next", "then", "then_any"]
After = Literal["skip_past_last", "skip_to_next", "no_skip"]
WHICH = ("first", "last")


@dataclass(frozen=True)
class Step:
    """Some events of a match: what each is, how many there are, and how near the one before must be.

    next        the very next event of the key
    then        the next one that is such an event
    then_any    any later one that is such an event
    """

    name: str
    where: Expression
    near: Near
    least: int = 1
    most: int | None = 1
    repeat: Near = "then"
    optional: bool = False
    reluctant: bool = False
    keep: tuple[str, ...] = ()


@dataclass(frozen=True)
class Never:
    """Events that must not come between what is taken before it and what is taken by the step of number `before`."""

    name: str
    where: Expression
    before: int


@dataclass(frozen=True)
class Reference:
    """A column of the first or last event that a step has taken so far, as a condition reads it."""

    which: str
    step: int
    column: str
    name: str


@dataclass(frozen=True)
class Sequence:
    """Steps, what never comes between them, the time from first to last event, and which matches are told."""

    title: str
    name: str
    stream: str
    key: tuple[str, ...]
    schema: Schema
    steps: tuple[Step, ...]
    nevers: tuple[Never, ...]
    within_us: int
    after: After
    patience_us: int  # how late an event may be and count
    partials: int

    @property
    def conditions(self) -> tuple[Expression, ...]:
        """What an event may be: first what each step takes, then what never comes."""
        return (*(step.where for step in self.steps), *(never.where for never in self.nevers))

    @property
    def references(self) -> tuple[Reference, ...]:
        """What conditions read of events taken before."""
        read = set().union(*map(fields, self.conditions))
        return tuple(one for one in references(self.schema, [step.name for step in self.steps]) if one.name in read)

    @property
    def columns(self) -> tuple[str, ...]:
        """The columns of an event that are read after it was taken: by later conditions, or to be told."""
        wanted = {column for step in self.steps for column in step.keep} | {one.column for one in self.references}
        for tree in self.conditions:
            if not fields(tree) <= set(self.schema.names):
                wanted |= fields(tree)
        return tuple(name for name in self.schema.names if name in wanted)

    @property
    def readable(self) -> Schema:
        """What conditions may read: an event's own columns, and those of events that steps took before it."""
        return readable(self.schema, [step.name for step in self.steps])


def references(schema: Schema, steps: Iterable[str]) -> Iterator[Reference]:
    """Whatever conditions may read of the events that these steps took."""
    for number, step in enumerate(steps):
        for which in WHICH:
            for column in schema.names:
                yield Reference(which, number, column, of_step(which, step, column))


def readable(schema: Schema, steps: Iterable[str]) -> Schema:
    """A stream's columns and those of what these steps took."""
    of_steps = (Column(one.name, schema.column(one.column, "").type) for one in references(schema, steps))
    return Schema((*schema.columns, *of_steps))
