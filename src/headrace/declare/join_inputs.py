"""What every join is told: two streams, the key, what is late; and what their columns are called in the output."""

import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from headrace.declare.derivation import KNOWN_AT
from headrace.declare.durations import duration_us
from headrace.declare.schema import Kind
from headrace.declare.source_lines import Written, written_here
from headrace.declare.stream import Late, LatePolicy, Stream
from headrace.errors import DeclarationError

On = str | tuple[str, str] | list[str | tuple[str, str]]
Names = tuple[tuple[str, str], ...]  # a column's name in its stream, and in the output

ID, EVENT_TIME, KIND, RETRACTS, STREAM = "id", "event_time", "kind", "retracts", "stream"
OWN = (ID, EVENT_TIME, KNOWN_AT, STREAM)
_NOTHING = re.compile("0+(ms|s|m|h|d)", re.ASCII)


@dataclass(frozen=True)
class Side:
    """An input of a join: what its columns are called in the output, and how late its events may be."""

    name: str
    columns: Names
    outer: bool
    after_us: int
    until_us: int


@dataclass(frozen=True)
class Joining:
    """A join as it was asked for, and where; `on` are the key's columns, left and right."""

    where: str
    name: str
    written: Written
    left: Stream
    right: Stream
    on: Names
    late: Late | None
    then: LatePolicy
    left_columns: Names
    right_columns: Names

    def refused(self, sentence: str) -> DeclarationError:
        return DeclarationError(f"{self.where}: {sentence}")

    def require_one_of(self, setting: str, value: str, known: tuple[str, ...]) -> None:
        if value not in known:
            raise self.refused(f"{setting}={value!r}. Write one of {', '.join(known)}.")

    def duration_us(self, setting: str, text: object) -> int:
        """A duration that may also be none at all: "0s"."""
        nothing = isinstance(text, str) and _NOTHING.fullmatch(text)
        return 0 if nothing else duration_us(text, f"{self.where}: {setting}")

    def signed_us(self, setting: str, text: object) -> int:
        """A duration that may also be below zero: ("-5m", "1h") is from five minutes after on."""
        if isinstance(text, str) and text.startswith("-"):
            return -self.duration_us(setting, text[1:])
        return self.duration_us(setting, text)

    @property
    def keys(self) -> tuple[str, ...]:
        """The key's columns in the output."""
        output = dict(self.left_columns)
        return tuple(output[ours] for ours, _ in self.on)

    @property
    def left_key(self) -> str:
        return dict(self.left_columns)[self.left.key]

    @property
    def right_key(self) -> str:
        """The right stream's key in the output, where a column of the join's key of the same name stands for both."""
        both = {theirs: key for (ours, theirs), key in zip(self.on, self.keys, strict=True) if ours == theirs}
        return (both | dict(self.right_columns))[self.right.key]

    @property
    def common_key(self) -> str:
        """A column no row leaves null, whichever event it is of: the key of both streams, or else the row's id."""
        return self.keys[0] if self.on[0] == (self.left.key, self.right.key) else ID

    def sides(self, *, left_outer: bool, right_outer: bool) -> tuple[Side, Side]:
        return (
            Side(self.left.name, self.left_columns, left_outer, *_patience_us(self.left, self.late)),
            Side(self.right.name, self.right_columns, right_outer, *_patience_us(self.right, self.late)),
        )


def joining(
    word: str, name: str, left: object, right: object, *, on: object, late: object, prefix: str | None
) -> Joining:
    """What the user asks for, two frames up, if it can be."""
    written = written_here(2)
    where = f"{written}: {word} {name!r}"
    ours, theirs = _stream(left, where), _stream(right, where)
    if ours == theirs:
        raise DeclarationError(
            f"{where}: {ours.name} is joined with itself. Derive a copy and join with that: "
            f"@hr.derive({ours.name}) def others({ours.name}): return {ours.name}."
        )
    if late is not None and not isinstance(late, Late):
        raise DeclarationError(f'{where}: late={late!r} is not a policy. Write late=hr.Late("2m", then="drop").')
    pairs = _pairs(on, where)
    _require_comparable(ours, theirs, pairs, where)
    then = _then(ours, theirs, late)
    taken = dict.fromkeys((*OWN, KIND, RETRACTS) if then == "update" else OWN, "Headrace's own")
    left_columns = _named(ours, ours.schema.names, prefix_of(ours), taken, where)
    same = {right_name for left_name, right_name in pairs if left_name == right_name}
    rest = [column for column in theirs.schema.names if column not in same]
    right_columns = _named(theirs, rest, prefix_of(theirs) if prefix is None else prefix, taken, where)
    return Joining(where, name, written, ours, theirs, pairs, late, then, left_columns, right_columns)


def prefix_of(stream: Stream) -> str:
    return re.sub(r"\W", "_", stream.name, flags=re.ASCII) + "_"


def _stream(value: object, where: str) -> Stream:
    if isinstance(value, Stream):
        return value
    raise DeclarationError(
        f"{where}: {type(value).__name__} is not a stream. Give an hr.Stream, or the .out of another join."
    )


def _pairs(on: object, where: str) -> Names:
    """The columns of the key, left and right."""
    pairs: Any = tuple((one, one) if isinstance(one, str) else one for one in (on if isinstance(on, list) else [on]))
    if not pairs or not all(isinstance(pair, tuple) and list(map(type, pair)) == [str, str] for pair in pairs):
        raise DeclarationError(
            f'{where}: on={on!r}. Write on="order_id"; on=("order_id", "ref") where the right one is called otherwise; '
            "or a list of these."
        )
    names: Names = pairs
    return names


def _require_comparable(left: Stream, right: Stream, pairs: Names, where: str) -> None:
    for ours, theirs in pairs:
        one = left.schema.column(ours, f"{where}: on: {left.name}")
        other = right.schema.column(theirs, f"{where}: on: {right.name}")
        if one.kind is not other.kind:
            raise DeclarationError(
                f"{where}: {left.name}.{ours} is {one.type}, {right.name}.{theirs} is {other.type}: "
                "they are never equal. Declare both columns with one type."
            )
        if one.kind is Kind.DOUBLE:
            raise DeclarationError(
                f"{where}: on={ours!r} is a {one.type}. Join by a string, a whole number, a boolean or a timestamp."
            )


def _then(left: Stream, right: Stream, late: Late | None) -> LatePolicy:
    """Without late= each stream's own policy holds: what its gate lets through is never put aside."""
    if late is not None:
        return late.then
    return "update" if "update" in (left.late.then, right.late.then) else "side_output"


def _named(stream: Stream, columns: Iterable[str], prefix: str, taken: dict[str, str], where: str) -> Names:
    """Columns and their names in the output: where a name is taken, with a prefix."""
    named = tuple((column, prefix + column if column in taken else column) for column in columns)
    for column, output in named:
        if output in taken:
            raise DeclarationError(
                f"{where}: {stream.name}.{column} would be called {output!r}, as {taken[output]} is. "
                'Write prefix="other_": what stands before right columns whose names are taken.'
            )
        taken[output] = f"{stream.name}.{column}"
    return named


def _patience_us(stream: Stream, late: Late | None) -> tuple[int, int]:
    """How late an event may be and be on time, and how late and still count: no later than its gate lets it."""
    given = late or stream.late
    return min(given.after_us, stream.late.until_us), min(given.until_us, stream.late.until_us)
