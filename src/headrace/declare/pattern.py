"""Patterns, as users write them: steps in an order, what never comes between, within a time, on a stream, by key.

user u1    fail     fail  ok      fail           ok
           └────────┴─────────────┴──────────────┘
           hr.pattern("three failed logins, then a success", by="user", within="10m")
             .step("fail", where="not ok", times=3).then("success", where="ok").on(logins)
"""

import re
from collections.abc import Sequence as Several
from dataclasses import dataclass, replace
from typing import Any, Literal, TypedDict, Unpack, get_args

from headrace.declare.derivation import Operation
from headrace.declare.durations import duration_us
from headrace.declare.expressions import Expression, parse
from headrace.declare.pattern_outputs import Matches, matches
from headrace.declare.schema import Kind, Schema
from headrace.declare.sequence import After, Near, Never, Sequence, Step, readable
from headrace.declare.source_lines import Written, written_here
from headrace.declare.stream import Late, Stream
from headrace.errors import DeclarationError

Times = int | tuple[int, int] | str
MOST_PARTIALS = 100_000
MOST_STEPS = 60  # whether each is met by an event is kept as a bit of a number
Word = Literal["step", "then", "next", "then_any", "never"]
NEAR: dict[Word, Near] = {"step": "then", "then": "then", "next": "next", "then_any": "then_any"}
_OR_MORE = re.compile(r"([1-9]\d{0,5})\+", re.ASCII)
_NAME = re.compile(r"[A-Za-z]\w*", re.ASCII)


class Quantity(TypedDict, total=False):
    """How many events a step takes: 3, (2, 5) or "1+", each how near; rather few; none at all; columns to be told."""

    times: Times
    repeat: Near
    reluctant: bool
    optional: bool
    keep: str | Several[str]


@dataclass(frozen=True)
class Asked:
    """A step as it was written, and where: its condition is read once it is known on which stream."""

    written: Written
    word: Word
    name: str
    where: object
    least: int
    most: int | None
    repeat: Near = "then"
    reluctant: bool = False
    optional: bool = False
    keep: tuple[str, ...] = ()

    def __str__(self) -> str:
        return f"{self.written}: step {self.name!r}"


@dataclass(frozen=True)
class Pattern:
    """A pattern that is being written: each word gives a new one, and `on` the streams of its matches."""

    title: str
    name: str
    written: Written
    by: tuple[str, ...]
    within_us: int
    after: After
    late: Late | None
    partials: int
    idle_us: int
    partitions: int
    asked: tuple[Asked, ...] = ()

    def __str__(self) -> str:
        return f"{self.written}: pattern {self.title!r}"

    def step(self, name: str, where: str = "true", **quantity: Unpack[Quantity]) -> "Pattern":
        """What a match begins with."""
        return self._with("step", name, where, quantity)

    def then(self, name: str, where: str = "true", **quantity: Unpack[Quantity]) -> "Pattern":
        """The next event that is such a one; others may come between."""
        return self._with("then", name, where, quantity)

    def next(self, name: str, where: str = "true", **quantity: Unpack[Quantity]) -> "Pattern":
        """The very next event of the key, if it is such a one."""
        return self._with("next", name, where, quantity)

    def then_any(self, name: str, where: str = "true", **quantity: Unpack[Quantity]) -> "Pattern":
        """Any later event that is such a one: others, and such ones too, may come between."""
        return self._with("then_any", name, where, quantity)

    def never(self, name: str, where: str) -> "Pattern":
        """No such event between what is taken before and after it, or until the time is over where nothing is after."""
        return self._with("never", name, where, {})

    def on(self, stream: Stream) -> Matches:
        """The streams of its matches among the events of a stream."""
        if not isinstance(stream, Stream):
            raise DeclarationError(f"{written_here()}: pattern {self.title!r} on {stream!r}. Give it an hr.Stream.")
        self._require_steps()
        for column in self.by:
            if stream.schema.column(column, f"{self}: by").kind is Kind.DOUBLE:
                raise DeclarationError(f"{self}: by={column!r} is a double. Name a column of texts or whole numbers.")
        sequence = self._sequence(stream)
        made_by = Operation(self.name, (stream,), self.written, by=(self.by,), what=sequence, idle_us=self.idle_us)
        puts_aside = self._late(stream).then == "side_output"
        return matches(made_by, sequence, puts_aside=puts_aside, partitions=self.partitions)

    def _with(self, word: Word, name: str, where: object, quantity: Quantity) -> "Pattern":
        written = written_here(2)
        self._require_turn(word, f"{written}: step {name!r}")
        _require_name(name, [one.name for one in self.asked], f"{written}: step {name!r}")
        settings = _settings(quantity, f"{written}: step {name!r}")
        least, most = _bounds(settings.pop("times", 1), f"{written}: step {name!r}")
        asked = Asked(written, word, name, where, least, most, **settings)
        if word == "step" and asked.optional:
            raise DeclarationError(f"{asked}: what a match begins with cannot be optional. Begin with what must come.")
        if asked.repeat not in get_args(Near):
            raise DeclarationError(f'{asked}: repeat={asked.repeat!r}. Write "then", "next" or "then_any".')
        return replace(self, asked=(*self.asked, asked))

    def _require_turn(self, word: Word, where: str) -> None:
        if not self.asked and word != "step":
            raise DeclarationError(f"{where} comes after nothing. Write .step(…) first: what a match begins with.")
        if self.asked and word == "step":
            raise DeclarationError(
                f"{where}: pattern {self.title!r} has begun with {self.asked[0].name!r}. "
                "Write .then(…), .next(…) or .then_any(…) for what comes after."
            )
        if len(self.asked) == MOST_STEPS:
            raise DeclarationError(f"{where} is one too many: a pattern has at most {MOST_STEPS} steps. Write two.")

    def _require_steps(self) -> None:
        if not self.asked:
            raise DeclarationError(f'{self} has no steps. Write .step("fail", where="not ok") before .on(…).')

    def _sequence(self, stream: Stream) -> Sequence:
        steps, nevers = list[Step](), list[Never]()
        for asked in self.asked:
            if asked.word == "never":
                nevers.append(Never(asked.name, self._condition(asked, stream.schema, steps), len(steps)))
            else:
                steps.append(self._step(asked, stream.schema, steps))
        patience_us = min(self._late(stream).after_us, stream.late.until_us)
        return Sequence(
            self.title, self.name, stream.name, self.by, stream.schema, tuple(steps), tuple(nevers),
            self.within_us, self.after, patience_us, self.partials,
        )  # fmt: skip

    def _step(self, asked: Asked, schema: Schema, before: list[Step]) -> Step:
        for column in asked.keep:
            schema.column(column, f"{asked}: keep")
        where, near = self._condition(asked, schema, before), NEAR[asked.word]
        return Step(
            asked.name, where, near, asked.least, asked.most, asked.repeat, asked.optional, asked.reluctant, asked.keep
        )

    def _condition(self, asked: Asked, schema: Schema, before: list[Step]) -> Expression:
        """A condition reads its event, and what was taken by the steps before it or by itself."""
        names = [step.name for step in before] + [asked.name] * (asked.word != "never")
        names = [name for name in names if f"{name}." in str(asked.where)]
        return parse(asked.where, readable(schema, names), f"{asked}: where")

    def _late(self, stream: Stream) -> Late:
        late = self.late or stream.late
        if late.then == "update":
            raise DeclarationError(
                f'{self}: then="update" would change matches that were told. '
                'Write late=hr.Late("2m", then="side_output"), or then="drop", in hr.pattern(…).'
            )
        return late


def pattern(
    title: str,
    *,
    by: str | Several[str],
    within: str,
    name: str | None = None,
    after: After = "skip_past_last",
    late: Late | None = None,
    partials: int = 1_000,
    idle: str = "10s",
    partitions: int = 2,
) -> Pattern:
    """A pattern in the events of a key, from its first to its last event `within` a time; go on with `.step(…)`.

    `after` says which matches are told: those that do not overlap ("skip_past_last"), one for each first event
    ("skip_to_next"), or all ("no_skip"). `late` is the stream's, unless another is given.
    """
    written = written_here()
    where = f"{written}: pattern {title!r}"
    if after not in get_args(After):
        raise DeclarationError(f"{where}: after={after!r}. Write one of {', '.join(get_args(After))}.")
    if late is not None and not isinstance(late, Late):
        raise DeclarationError(f'{where}: late={late!r} is not a policy. Write late=hr.Late("2m", then="drop").')
    if type(partials) is not int or not 1 <= partials <= MOST_PARTIALS:
        raise DeclarationError(f"{where}: partials={partials!r}. Write a whole number from 1 to {MOST_PARTIALS:,}.")
    keys = (by,) if isinstance(by, str) else tuple(by)
    if not keys:
        raise DeclarationError(f'{where}: by={by!r} names no column. Write the key, such as by="user".')
    return Pattern(
        title, name or _name(title, where), written, keys, duration_us(within, f"{where}: within"), after, late,
        partials, duration_us(idle, f"{where}: idle"), partitions,
    )  # fmt: skip


def _name(title: object, where: str) -> str:
    """A topic's name of a title: its letters and digits.

    >>> _name("Three failed logins, then a success", "")
    'three_failed_logins_then_a_success'
    """
    name = re.sub(r"[^a-z0-9]+", "_", title.lower()).strip("_")[:180] if isinstance(title, str) else ""
    if not name:
        raise DeclarationError(f'{where}: no topic can be called so. Write name="logins_guessed" beside the title.')
    return name


def _settings(quantity: Quantity, where: str) -> dict[str, Any]:
    for unknown in quantity.keys() - Quantity.__annotations__.keys():
        raise DeclarationError(
            f"{where}: {unknown}= is no setting of a step. These are: {', '.join(Quantity.__annotations__)}."
        )
    keep = quantity.get("keep", ())
    return {**quantity, "keep": (keep,) if isinstance(keep, str) else tuple(keep)}


def _bounds(times: object, where: str) -> tuple[int, int | None]:
    """The least and the most events that a step takes.

    >>> _bounds(3, ""), _bounds((2, 5), ""), _bounds("2+", "")
    ((3, 3), (2, 5), (2, None))
    """
    if isinstance(times, str) and (more := _OR_MORE.fullmatch(times)):
        return int(more[1]), None
    least, most = times if isinstance(times, tuple) and len(times) == 2 else (times, times)
    if type(least) is not int or type(most) is not int or not 1 <= least <= most:
        raise DeclarationError(
            f'{where}: times={times!r}. Write a number, such as 3; two, such as (2, 5); or "2+". '
            "A step that may be left out is optional=True."
        )
    return least, most


def _require_name(name: object, others: list[str], where: str) -> None:
    if not isinstance(name, str) or not _NAME.fullmatch(name):
        raise DeclarationError(
            f"{where}: its name becomes columns. Write letters, digits and underscores, beginning with a letter."
        )
    if name in others:
        raise DeclarationError(f"{where}: there is one of that name before it. Give it another name.")
