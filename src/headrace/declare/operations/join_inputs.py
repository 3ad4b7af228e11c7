"""Inputs of a join: two streams, the key, the late policy, and the names of their columns in the output."""

import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from headrace.declare.durations import duration_us
from headrace.declare.operations.derived_stream import KNOWN_AT
from headrace.declare.source_location import SourceLocation, locate_caller
from headrace.declare.streams.schema import Kind
from headrace.declare.streams.stream import Late, LatePolicy, Stream
from headrace.errors import DeclarationError

JoinKeys = str | tuple[str, str] | list[str | tuple[str, str]]
ColumnMapping = tuple[tuple[str, str], ...]  # a column's name in its stream, and in the output

ID, EVENT_TIME, KIND, RETRACTS, STREAM = "id", "event_time", "kind", "retracts", "stream"
OWN_COLUMNS = (ID, EVENT_TIME, KNOWN_AT, STREAM)
_ZERO_DURATION = re.compile("0+(ms|s|m|h|d)", re.ASCII)


@dataclass(frozen=True)
class Side:
    """An input of a join: the output names of its columns, and its allowed lateness."""

    name: str
    columns: ColumnMapping
    outer: bool
    after_us: int
    until_us: int


@dataclass(frozen=True)
class JoinRequest:
    """The arguments of a join, and the location of the call; `on` are the key's columns, left and right."""

    where: str
    name: str
    location: SourceLocation
    left: Stream
    right: Stream
    on: ColumnMapping
    late: Late | None
    late_policy: LatePolicy
    left_columns: ColumnMapping
    right_columns: ColumnMapping

    def declaration_error(self, message: str) -> DeclarationError:
        return DeclarationError(f"{self.where}: {message}")

    def require_one_of(self, setting: str, value: str, choices: tuple[str, ...]) -> None:
        if value not in choices:
            raise self.declaration_error(f"{setting}={value!r}. Write one of {', '.join(choices)}.")

    def parse_duration_us(self, setting: str, text: object) -> int:
        """A duration that may be zero: "0s"."""
        is_zero = isinstance(text, str) and _ZERO_DURATION.fullmatch(text)
        return 0 if is_zero else duration_us(text, f"{self.where}: {setting}")

    def parse_signed_duration_us(self, setting: str, text: object) -> int:
        """A duration that may be negative: ("-5m", "1h") starts five minutes after the left event."""
        if isinstance(text, str) and text.startswith("-"):
            return -self.parse_duration_us(setting, text[1:])
        return self.parse_duration_us(setting, text)

    @property
    def output_keys(self) -> tuple[str, ...]:
        """The key columns of the output."""
        output_names = dict(self.left_columns)
        return tuple(output_names[left_column] for left_column, _ in self.on)

    @property
    def left_key(self) -> str:
        return dict(self.left_columns)[self.left.key]

    @property
    def right_key(self) -> str:
        """The right stream's key in the output; one column stands for both keys if they have the same name."""
        shared_keys = {
            right_column: key
            for (left_column, right_column), key in zip(self.on, self.output_keys, strict=True)
            if left_column == right_column
        }
        return (shared_keys | dict(self.right_columns))[self.right.key]

    @property
    def common_key(self) -> str:
        """A column that is null in no row, whichever stream it comes from: the common key, or else the row's id."""
        return self.output_keys[0] if self.on[0] == (self.left.key, self.right.key) else ID

    def build_sides(self, *, left_outer: bool, right_outer: bool) -> tuple[Side, Side]:
        return (
            Side(self.left.name, self.left_columns, left_outer, *_allowed_lateness_us(self.left, self.late)),
            Side(self.right.name, self.right_columns, right_outer, *_allowed_lateness_us(self.right, self.late)),
        )


def build_join_request(
    function_name: str, name: str, left: object, right: object, *, on: object, late: object, prefix: str | None
) -> JoinRequest:
    """Check the arguments of the user's call, two frames up."""
    location = locate_caller(2)
    where = f"{location}: {function_name} {name!r}"
    left_stream, right_stream = _require_stream(left, where), _require_stream(right, where)
    if left_stream == right_stream:
        raise DeclarationError(
            f"{where}: {left_stream.name} is joined with itself. Derive a copy and join with that: "
            f"@hr.derive({left_stream.name}) def others({left_stream.name}): return {left_stream.name}."
        )
    if late is not None and not isinstance(late, Late):
        raise DeclarationError(f'{where}: late={late!r} is not a policy. Write late=hr.Late("2m", then="drop").')
    key_columns = _parse_key_columns(on, where)
    _require_comparable(left_stream, right_stream, key_columns, where)
    late_policy = _resolve_late_policy(left_stream, right_stream, late)
    taken_names = dict.fromkeys(
        (*OWN_COLUMNS, KIND, RETRACTS) if late_policy == "update" else OWN_COLUMNS, "Headrace's own"
    )
    left_columns = _name_output_columns(
        left_stream, left_stream.schema.names, column_prefix(left_stream), taken_names, where
    )
    shared_columns = {right_name for left_name, right_name in key_columns if left_name == right_name}
    remaining_columns = [column for column in right_stream.schema.names if column not in shared_columns]
    right_columns = _name_output_columns(
        right_stream, remaining_columns, column_prefix(right_stream) if prefix is None else prefix, taken_names, where
    )
    return JoinRequest(
        where, name, location, left_stream, right_stream, key_columns, late, late_policy, left_columns, right_columns
    )


def column_prefix(stream: Stream) -> str:
    return re.sub(r"\W", "_", stream.name, flags=re.ASCII) + "_"


def _require_stream(value: object, where: str) -> Stream:
    if isinstance(value, Stream):
        return value
    raise DeclarationError(
        f"{where}: {type(value).__name__} is not a stream. Give an hr.Stream, or the .out of another join."
    )


def _parse_key_columns(on: object, where: str) -> ColumnMapping:
    """The key columns, left and right."""
    pairs: Any = tuple((key, key) if isinstance(key, str) else key for key in (on if isinstance(on, list) else [on]))
    if not pairs or not all(isinstance(pair, tuple) and list(map(type, pair)) == [str, str] for pair in pairs):
        raise DeclarationError(
            f'{where}: on={on!r}. Write on="order_id"; on=("order_id", "ref") where the right one is called otherwise; '
            "or a list of these."
        )
    key_columns: ColumnMapping = pairs
    return key_columns


def _require_comparable(left: Stream, right: Stream, key_columns: ColumnMapping, where: str) -> None:
    for left_name, right_name in key_columns:
        left_column = left.schema.column(left_name, f"{where}: on: {left.name}")
        right_column = right.schema.column(right_name, f"{where}: on: {right.name}")
        if left_column.kind is not right_column.kind:
            raise DeclarationError(
                f"{where}: {left.name}.{left_name} is {left_column.type}, {right.name}.{right_name} is "
                f"{right_column.type}: "
                "they are never equal. Declare both columns with one type."
            )
        if left_column.kind is Kind.DOUBLE:
            raise DeclarationError(
                f"{where}: on={left_name!r} is a {left_column.type}. Join by a string, a whole number, a boolean or "
                f"a timestamp."
            )


def _resolve_late_policy(left: Stream, right: Stream, late: Late | None) -> LatePolicy:
    """Without late= each stream's own policy holds: events that its gate accepts always count here."""
    if late is not None:
        return late.then
    return "update" if "update" in (left.late.then, right.late.then) else "side_output"


def _name_output_columns(
    stream: Stream, columns: Iterable[str], prefix: str, taken_names: dict[str, str], where: str
) -> ColumnMapping:
    """Columns and their names in the output: with a prefix if a name is taken."""
    mapping = tuple((column, prefix + column if column in taken_names else column) for column in columns)
    for column, output in mapping:
        if output in taken_names:
            raise DeclarationError(
                f"{where}: {stream.name}.{column} would be called {output!r}, as {taken_names[output]} is. "
                'Write prefix="other_": the prefix of right columns whose names are taken.'
            )
        taken_names[output] = f"{stream.name}.{column}"
    return mapping


def _allowed_lateness_us(stream: Stream, late: Late | None) -> tuple[int, int]:
    """The lateness up to which an event is on time, and up to which it counts: at most that of its gate."""
    policy = late or stream.late
    return min(policy.after_us, stream.late.until_us), min(policy.until_us, stream.late.until_us)
