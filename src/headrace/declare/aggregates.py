"""The aggregates a feature view is made of."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, overload

from headrace.declare.durations import duration_text, duration_us
from headrace.declare.expressions import NUMBERS, Expression, parse
from headrace.declare.operands import Operand, Output, call
from headrace.declare.schema import Kind, Schema
from headrace.declare.windows import Window, Windows, window_of
from headrace.errors import DeclarationError

LONGEST_TOP = 100
ORDERED = NUMBERS | {Kind.STRING, Kind.TIMESTAMP}
COUNTABLE = {Kind.STRING, Kind.INTEGER, Kind.BOOLEAN, Kind.TIMESTAMP}
KINDS_TAKEN = {
    "sum": NUMBERS,
    "mean": NUMBERS,
    "stddev": NUMBERS,
    "var": NUMBERS,
    "quantile": NUMBERS,
    "ewm": NUMBERS,
    "min": ORDERED,
    "max": ORDERED,
    "first": set(Kind),
    "last": set(Kind),
    "distinct": COUNTABLE,
    "top": COUNTABLE - {Kind.TIMESTAMP},
    "count_by": COUNTABLE - {Kind.TIMESTAMP},
}
ERROR = 0.02


@dataclass(frozen=True)
class Declared:
    """An aggregate as it was written; a view reads it against its stream."""

    function: str
    column: str | None
    where: str | None
    windows: Windows
    hop: str | None
    error: float | None = None
    share: float | None = None
    halflife: str | None = None
    k: int | None = None

    def __getitem__(self, window: str) -> Operand:
        """Its value over one of its windows, to compute with."""
        return Operand(Output(self, window))


@dataclass(frozen=True)
class Aggregate:
    """An aggregate of a stream's column over the events that fit a condition."""

    function: str
    column: str | None
    kind: Kind | None
    where: Expression | None
    error: float | None
    share: float | None = None
    halflife_us: int | None = None
    k: int | None = None

    @property
    def gives_a_list(self) -> bool:
        return self.function == "top"

    @property
    def gives_a_map(self) -> bool:
        return self.function == "count_by"


@overload
def count(*, windows: Windows, where: str | None = None, hop: str | None = None) -> Declared: ...
@overload
def count(
    *, by: str, windows: Windows, where: str | None = None, hop: str | None = None, error: float = ERROR
) -> Declared: ...
def count(
    *,
    windows: Windows,
    by: str | None = None,
    where: str | None = None,
    hop: str | None = None,
    error: float | None = None,
) -> Declared:
    """How many events; with `by`, a map of how many each value of that column has, by frequent items."""
    if by is not None:
        return Declared("count_by", by, where, windows, hop, ERROR if error is None else error)
    if error is not None:
        raise DeclarationError(f'hr.count(error={error!r}): a count is exact. Leave error= out, or add by="column".')
    return Declared("count", None, where, windows, hop)


def sum(column: str, *, windows: Windows, where: str | None = None, hop: str | None = None) -> Declared:
    """The sum of a column; integers are summed exactly."""
    return Declared("sum", column, where, windows, hop)


def mean(column: str, *, windows: Windows, where: str | None = None, hop: str | None = None) -> Declared:
    """The mean of a column."""
    return Declared("mean", column, where, windows, hop)


def stddev(column: str, *, windows: Windows, where: str | None = None, hop: str | None = None) -> Declared:
    """The sample standard deviation of a column; null below two values."""
    return Declared("stddev", column, where, windows, hop)


def var(column: str, *, windows: Windows, where: str | None = None, hop: str | None = None) -> Declared:
    """The sample variance of a column; null below two values."""
    return Declared("var", column, where, windows, hop)


@overload
def min(column: str, *, windows: Windows, where: str | None = None, hop: str | None = None) -> Declared: ...
@overload
def min(column: Operand, *others: object) -> Operand: ...
def min(column: str | Operand, *others: object, **settings: Any) -> Declared | Operand:
    """The smallest value of a column, or of some features; NaN counts as greater than every number."""
    return _extreme("min", "least", column, others, settings)


@overload
def max(column: str, *, windows: Windows, where: str | None = None, hop: str | None = None) -> Declared: ...
@overload
def max(column: Operand, *others: object) -> Operand: ...
def max(column: str | Operand, *others: object, **settings: Any) -> Declared | Operand:
    """The greatest value of a column, or of some features; NaN counts as greater than every number."""
    return _extreme("max", "greatest", column, others, settings)


def _extreme(
    function: str, op: str, column: str | Operand, others: tuple[object, ...], settings: dict[str, Any]
) -> Declared | Operand:
    if isinstance(column, Operand) or any(isinstance(other, Operand) for other in others):
        return call(op, column, *others)
    if others:
        raise DeclarationError(
            f"hr.{function}({column!r}, {others[0]!r}): write a column and windows=…, or features with their windows."
        )
    return _of_column(function, column, **settings)


def _of_column(
    function: str, column: str, *, windows: Windows, where: str | None = None, hop: str | None = None
) -> Declared:
    return Declared(function, column, where, windows, hop)


def first(column: str, *, windows: Windows, where: str | None = None, hop: str | None = None) -> Declared:
    """The value with the earliest event time; nulls are passed over, ties go to the smaller id."""
    return Declared("first", column, where, windows, hop)


def last(column: str, *, windows: Windows, where: str | None = None, hop: str | None = None) -> Declared:
    """The value with the latest event time; nulls are passed over, ties go to the greater id."""
    return Declared("last", column, where, windows, hop)


def distinct(
    column: str,
    *,
    windows: Windows,
    where: str | None = None,
    hop: str | None = None,
    error: float = ERROR,
) -> Declared:
    """How many different values, by HyperLogLog with the stated relative standard error."""
    return Declared("distinct", column, where, windows, hop, error)


def quantile(
    column: str,
    share: float,
    *,
    windows: Windows,
    where: str | None = None,
    hop: str | None = None,
    error: float = ERROR,
) -> Declared:
    """The smallest value that at least this share of the values do not exceed, by KLL with the stated error of rank."""
    return Declared("quantile", column, where, windows, hop, error, share)


def ewm(column: str, *, halflife: str, windows: Windows, where: str | None = None, hop: str | None = None) -> Declared:
    """The exponentially weighted mean of a column: a value counts half as much as one a half-life later."""
    return Declared("ewm", column, where, windows, hop, halflife=halflife)


def top(
    column: str,
    k: int,
    *,
    windows: Windows,
    where: str | None = None,
    hop: str | None = None,
    error: float = ERROR,
) -> Declared:
    """The k most frequent values, most frequent first, by frequent items whose counts have the stated error."""
    return Declared("top", column, where, windows, hop, error, k=k)


def bind(declared: Declared, schema: Schema, where: str) -> Aggregate:
    """The aggregate a declaration means on a schema, or the reason it has no meaning there."""
    condition = None if declared.where is None else parse(declared.where, schema, f"{where}: where")
    if declared.column is None:
        return Aggregate(declared.function, None, None, condition, None)
    kind = schema.column(declared.column, where).kind
    taken = KINDS_TAKEN[declared.function]
    if kind not in taken:
        names = ", ".join(sorted(other.value for other in taken))
        raise DeclarationError(
            f"{where}: {_spoken(declared)} {declared.column!r}, which is {kind.value}. It takes {names}."
        )
    if declared.error is not None:
        _require_error(declared.error, where)
    if declared.function == "quantile":
        _require_share(declared.share, where)
    if declared.function == "top":
        _require_k(declared.k, where)
    return Aggregate(
        declared.function,
        declared.column,
        kind,
        condition,
        declared.error,
        declared.share,
        _halflife_us(declared, where),
        declared.k,
    )


def _spoken(declared: Declared) -> str:
    return "count by" if declared.function == "count_by" else f"{declared.function} of"


def _halflife_us(declared: Declared, where: str) -> int | None:
    return duration_us(declared.halflife, f"{where}: halflife") if declared.function == "ewm" else None


def _require_error(error: object, where: str) -> None:
    if not isinstance(error, float) or not 0.001 <= error <= 0.25:
        raise DeclarationError(f"{where}: error={error!r}. Write a relative error from 0.001 to 0.25.")


def _require_share(share: object, where: str) -> None:
    if type(share) not in {int, float} or not 0 <= share <= 1:  # type: ignore[operator]  # a number by now
        raise DeclarationError(f"{where}: quantile {share!r}. Write a share from 0 to 1, such as 0.5 for the median.")


def _require_k(k: object, where: str) -> None:
    if type(k) is not int or not 1 <= k <= LONGEST_TOP:
        raise DeclarationError(f"{where}: top {k!r}. Write how many values to give, from 1 to {LONGEST_TOP}.")


def written_windows(declared: Declared) -> Sequence[str]:
    """The windows of a declaration, as they were written."""
    return [declared.windows] if isinstance(declared.windows, str) else declared.windows


def windows_of(declared: Declared, where: str) -> tuple[Window, ...]:
    """The windows of a declaration, each with its hop."""
    written = written_windows(declared)
    if not isinstance(written, list | tuple) or not written:
        raise DeclarationError(
            f"{where}: windows={declared.windows!r}. "
            'Write one or several durations, such as windows=["10m", "1h"], or "forever".'
        )
    windows = tuple(window_of(text, declared.hop, where) for text in written)
    for window in windows:
        _require_halflife(declared, window, where)
    return windows


def _require_halflife(declared: Declared, window: Window, where: str) -> None:
    halflife_us = _halflife_us(declared, where)
    if halflife_us is not None and halflife_us < window.hop_us:
        hop = duration_text(window.hop_us)
        raise DeclarationError(
            f"{where}: halflife={declared.halflife!r} is shorter than {hop!r}, the hop of the window {window.text!r}. "
            f"Write halflife={hop!r} or longer, hop={declared.halflife!r} or shorter, or a shorter window."
        )
