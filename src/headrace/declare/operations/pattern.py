"""Patterns, as users declare them: an ordered sequence of steps within a time, with exclusions, by key.

user u1    fail     fail  ok      fail           ok
           └────────┴─────────────┴──────────────┘
           hr.pattern("three failed logins, then a success", by="user", within="10m")
             .step("fail", where="not ok", times=3).then("success", where="ok").on(logins)
"""

import re
from collections.abc import Sequence as AbcSequence
from dataclasses import dataclass, replace
from typing import Any, Literal, TypedDict, Unpack, get_args

from headrace.declare.durations import duration_us
from headrace.declare.expressions import Expression, parse_condition
from headrace.declare.operations.derived_stream import StreamOperation
from headrace.declare.operations.pattern_outputs import PatternOutputs, build_pattern_outputs
from headrace.declare.operations.pattern_sequence import (
    Contiguity,
    Never,
    Sequence,
    SkipStrategy,
    Step,
    readable_schema,
)
from headrace.declare.source_location import SourceLocation, locate_caller
from headrace.declare.streams.schema import Kind, Schema
from headrace.declare.streams.stream import Late, Stream
from headrace.errors import DeclarationError

StepTimes = int | tuple[int, int] | str
MAX_PARTIAL_MATCHES = 100_000
MAX_STEPS = 60  # the steps an event meets are stored as bits of an integer
StepKind = Literal["step", "then", "next", "then_any", "never"]
CONTIGUITY_BY_KIND: dict[StepKind, Contiguity] = {
    "step": "then",
    "then": "then",
    "next": "next",
    "then_any": "then_any",
}
_AT_LEAST_PATTERN = re.compile(r"([1-9]\d{0,5})\+", re.ASCII)
_STEP_NAME_PATTERN = re.compile(r"[A-Za-z]\w*", re.ASCII)


class StepOptions(TypedDict, total=False):
    """Options of a step: its quantifier (3, (2, 5) or "1+") and contiguity, reluctance, optionality, output columns."""

    times: StepTimes
    repeat: Contiguity
    reluctant: bool
    optional: bool
    keep: str | AbcSequence[str]


@dataclass(frozen=True)
class StepDeclaration:
    """A step as written, and its location: its condition is parsed once its stream is known."""

    location: SourceLocation
    kind: StepKind
    name: str
    where: object
    least: int
    most: int | None
    repeat: Contiguity = "then"
    reluctant: bool = False
    optional: bool = False
    keep: tuple[str, ...] = ()

    def __str__(self) -> str:
        return f"{self.location}: step {self.name!r}"


@dataclass(frozen=True)
class Pattern:
    """A pattern under construction: each method returns a new one, and `on` the streams of its matches."""

    title: str
    name: str
    location: SourceLocation
    by: tuple[str, ...]
    within_us: int
    after: SkipStrategy
    late: Late | None
    partials: int
    idle_us: int
    partitions: int
    step_declarations: tuple[StepDeclaration, ...] = ()

    def __str__(self) -> str:
        return f"{self.location}: pattern {self.title!r}"

    def step(self, name: str, where: str = "true", **options: Unpack[StepOptions]) -> "Pattern":
        """The first step of a match."""
        return self._add_step("step", name, where, options)

    def then(self, name: str, where: str = "true", **options: Unpack[StepOptions]) -> "Pattern":
        """The next event that meets the condition; others may come between (relaxed contiguity)."""
        return self._add_step("then", name, where, options)

    def next(self, name: str, where: str = "true", **options: Unpack[StepOptions]) -> "Pattern":
        """The very next event of the key, if it meets the condition (strict contiguity)."""
        return self._add_step("next", name, where, options)

    def then_any(self, name: str, where: str = "true", **options: Unpack[StepOptions]) -> "Pattern":
        """Any later event that meets the condition; even matching events may come between (non-deterministic)."""
        return self._add_step("then_any", name, where, options)

    def never(self, name: str, where: str) -> "Pattern":
        """No such event between the steps before and after, or until the time is over if it comes last."""
        return self._add_step("never", name, where, {})

    def on(self, stream: Stream) -> PatternOutputs:
        """The streams of its matches in the events of a stream."""
        if not isinstance(stream, Stream):
            raise DeclarationError(f"{locate_caller()}: pattern {self.title!r} on {stream!r}. Give it an hr.Stream.")
        self._require_steps()
        for column in self.by:
            if stream.schema.column(column, f"{self}: by").kind is Kind.DOUBLE:
                raise DeclarationError(f"{self}: by={column!r} is a double. Name a column of texts or whole numbers.")
        sequence = self._build_sequence(stream)
        operation = StreamOperation(
            self.name, (stream,), self.location, by=(self.by,), spec=sequence, idle_us=self.idle_us
        )
        has_late_output = self._resolve_late(stream).then == "side_output"
        return build_pattern_outputs(operation, sequence, has_late_output=has_late_output, partitions=self.partitions)

    def _add_step(self, kind: StepKind, name: str, where: object, options: StepOptions) -> "Pattern":
        location = locate_caller(2)
        self._require_step_order(kind, f"{location}: step {name!r}")
        _require_name(
            name, [earlier_step.name for earlier_step in self.step_declarations], f"{location}: step {name!r}"
        )
        settings = _parse_step_options(options, f"{location}: step {name!r}")
        least, most = _parse_times(settings.pop("times", 1), f"{location}: step {name!r}")
        declaration = StepDeclaration(location, kind, name, where, least, most, **settings)
        if kind == "step" and declaration.optional:
            raise DeclarationError(
                f"{declaration}: what a match begins with cannot be optional. Begin with what must come."
            )
        if declaration.repeat not in get_args(Contiguity):
            raise DeclarationError(f'{declaration}: repeat={declaration.repeat!r}. Write "then", "next" or "then_any".')
        return replace(self, step_declarations=(*self.step_declarations, declaration))

    def _require_step_order(self, kind: StepKind, where: str) -> None:
        if not self.step_declarations and kind != "step":
            raise DeclarationError(f"{where} comes after nothing. Write .step(…) first: what a match begins with.")
        if self.step_declarations and kind == "step":
            raise DeclarationError(
                f"{where}: pattern {self.title!r} has begun with {self.step_declarations[0].name!r}. "
                "Write .then(…), .next(…) or .then_any(…) for what comes after."
            )
        if len(self.step_declarations) == MAX_STEPS:
            raise DeclarationError(f"{where} is one too many: a pattern has at most {MAX_STEPS} steps. Write two.")

    def _require_steps(self) -> None:
        if not self.step_declarations:
            raise DeclarationError(f'{self} has no steps. Write .step("fail", where="not ok") before .on(…).')

    def _build_sequence(self, stream: Stream) -> Sequence:
        steps, nevers = list[Step](), list[Never]()
        for declaration in self.step_declarations:
            if declaration.kind == "never":
                nevers.append(
                    Never(declaration.name, self._parse_condition(declaration, stream.schema, steps), len(steps))
                )
            else:
                steps.append(self._build_step(declaration, stream.schema, steps))
        allowed_lateness_us = min(self._resolve_late(stream).after_us, stream.late.until_us)
        return Sequence(
            self.title, self.name, stream.name, self.by, stream.schema, tuple(steps), tuple(nevers),
            self.within_us, self.after, allowed_lateness_us, self.partials,
        )  # fmt: skip

    def _build_step(self, declaration: StepDeclaration, schema: Schema, earlier_steps: list[Step]) -> Step:
        for column in declaration.keep:
            schema.column(column, f"{declaration}: keep")
        where, contiguity = (
            self._parse_condition(declaration, schema, earlier_steps),
            CONTIGUITY_BY_KIND[declaration.kind],
        )
        return Step(
            declaration.name,
            where,
            contiguity,
            declaration.least,
            declaration.most,
            declaration.repeat,
            declaration.optional,
            declaration.reluctant,
            declaration.keep,
        )

    def _parse_condition(self, declaration: StepDeclaration, schema: Schema, earlier_steps: list[Step]) -> Expression:
        """A condition reads its event, and the events that earlier steps or this one have matched."""
        names = [step.name for step in earlier_steps] + [declaration.name] * (declaration.kind != "never")
        names = [name for name in names if f"{name}." in str(declaration.where)]
        return parse_condition(declaration.where, readable_schema(schema, names), f"{declaration}: where")

    def _resolve_late(self, stream: Stream) -> Late:
        late = self.late or stream.late
        if late.then == "update":
            raise DeclarationError(
                f'{self}: then="update" would change matches that were emitted. '
                'Write late=hr.Late("2m", then="side_output"), or then="drop", in hr.pattern(…).'
            )
        return late


def pattern(
    title: str,
    *,
    by: str | AbcSequence[str],
    within: str,
    name: str | None = None,
    after: SkipStrategy = "skip_past_last",
    late: Late | None = None,
    partials: int = 1_000,
    idle: str = "10s",
    partitions: int = 2,
) -> Pattern:
    """A pattern in the events of a key, from its first to its last event `within` a time; continue with `.step(…)`.

    `after` says which matches are emitted: those that do not overlap ("skip_past_last"), one for each first event
    ("skip_to_next"), or all ("no_skip"). `late` defaults to the stream's policy.
    """
    location = locate_caller()
    where = f"{location}: pattern {title!r}"
    if after not in get_args(SkipStrategy):
        raise DeclarationError(f"{where}: after={after!r}. Write one of {', '.join(get_args(SkipStrategy))}.")
    if late is not None and not isinstance(late, Late):
        raise DeclarationError(f'{where}: late={late!r} is not a policy. Write late=hr.Late("2m", then="drop").')
    if type(partials) is not int or not 1 <= partials <= MAX_PARTIAL_MATCHES:
        raise DeclarationError(
            f"{where}: partials={partials!r}. Write a whole number from 1 to {MAX_PARTIAL_MATCHES:,}."
        )
    keys = (by,) if isinstance(by, str) else tuple(by)
    if not keys:
        raise DeclarationError(f'{where}: by={by!r} names no column. Write the key, such as by="user".')
    return Pattern(
        title, name or _name_from_title(title, where), location, keys, duration_us(within, f"{where}: "
            f"within"), after, late,
        partials, duration_us(idle, f"{where}: idle"), partitions,
    )  # fmt: skip


def _name_from_title(title: object, where: str) -> str:
    """A topic name from a title: its letters and digits.

    >>> _name_from_title("Three failed logins, then a success", "")
    'three_failed_logins_then_a_success'
    """
    name = re.sub(r"[^a-z0-9]+", "_", title.lower()).strip("_")[:180] if isinstance(title, str) else ""
    if not name:
        raise DeclarationError(f'{where}: no topic can be called so. Write name="logins_guessed" beside the title.')
    return name


def _parse_step_options(options: StepOptions, where: str) -> dict[str, Any]:
    for unknown in options.keys() - StepOptions.__annotations__.keys():
        raise DeclarationError(
            f"{where}: {unknown}= is no setting of a step. These are: {', '.join(StepOptions.__annotations__)}."
        )
    keep = options.get("keep", ())
    return {**options, "keep": (keep,) if isinstance(keep, str) else tuple(keep)}


def _parse_times(times: object, where: str) -> tuple[int, int | None]:
    """The minimum and the maximum number of events of a step.

    >>> _parse_times(3, ""), _parse_times((2, 5), ""), _parse_times("2+", "")
    ((3, 3), (2, 5), (2, None))
    """
    if isinstance(times, str) and (match := _AT_LEAST_PATTERN.fullmatch(times)):
        return int(match[1]), None
    least, most = times if isinstance(times, tuple) and len(times) == 2 else (times, times)
    if type(least) is not int or type(most) is not int or not 1 <= least <= most:
        raise DeclarationError(
            f'{where}: times={times!r}. Write a number, such as 3; two, such as (2, 5); or "2+". '
            "A step that may be left out is optional=True."
        )
    return least, most


def _require_name(name: object, existing_names: list[str], where: str) -> None:
    if not isinstance(name, str) or not _STEP_NAME_PATTERN.fullmatch(name):
        raise DeclarationError(
            f"{where}: its name becomes columns. Write letters, digits and underscores, beginning with a letter."
        )
    if name in existing_names:
        raise DeclarationError(f"{where}: there is one of that name before it. Give it another name.")
