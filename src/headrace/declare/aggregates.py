"""The aggregates a feature view is made of."""

from dataclasses import dataclass
from typing import Any, overload

from headrace.declare.expressions import Expression
from headrace.declare.operands import Operand, Output, call
from headrace.declare.schema import Kind
from headrace.declare.windows import Windows
from headrace.errors import DeclarationError

DEFAULT_ERROR = 0.02


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

    __iter__ = None  # without that, `list(…)` would ask for the windows 0, 1, 2 and never end


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
    def text(self) -> str:
        """As it is read by people."""
        where = "" if self.where is None else f" where {self.where}"
        return f"{self.function}({self.column or ''}){where}"

    @property
    def gives_a_list(self) -> bool:
        return self.function == "top"

    @property
    def gives_a_map(self) -> bool:
        return self.function == "count_by"


@overload
def count(*, windows: Windows = (), where: str | None = None, hop: str | None = None) -> Declared: ...
@overload
def count(
    *, by: str, windows: Windows = (), where: str | None = None, hop: str | None = None, error: float = DEFAULT_ERROR
) -> Declared: ...
def count(
    *,
    windows: Windows = (),
    by: str | None = None,
    where: str | None = None,
    hop: str | None = None,
    error: float | None = None,
) -> Declared:
    """How many events; with `by`, a map of how many each value of that column has, by frequent items."""
    if by is not None:
        return Declared("count_by", by, where, windows, hop, DEFAULT_ERROR if error is None else error)
    if error is not None:
        raise DeclarationError(f'hr.count(error={error!r}): a count is exact. Leave error= out, or add by="column".')
    return Declared("count", None, where, windows, hop)


def sum(column: str, *, windows: Windows = (), where: str | None = None, hop: str | None = None) -> Declared:
    """The sum of a column; integers are summed exactly."""
    return Declared("sum", column, where, windows, hop)


def mean(column: str, *, windows: Windows = (), where: str | None = None, hop: str | None = None) -> Declared:
    """The mean of a column."""
    return Declared("mean", column, where, windows, hop)


def stddev(column: str, *, windows: Windows = (), where: str | None = None, hop: str | None = None) -> Declared:
    """The sample standard deviation of a column; null below two values."""
    return Declared("stddev", column, where, windows, hop)


def var(column: str, *, windows: Windows = (), where: str | None = None, hop: str | None = None) -> Declared:
    """The sample variance of a column; null below two values."""
    return Declared("var", column, where, windows, hop)


@overload
def min(column: str, *, windows: Windows = (), where: str | None = None, hop: str | None = None) -> Declared: ...
@overload
def min(column: Operand, *others: object) -> Operand: ...
def min(column: str | Operand, *others: object, **settings: Any) -> Declared | Operand:
    """The smallest value of a column, or of some features; NaN counts as greater than every number."""
    return _extreme("min", "least", column, others, settings)


@overload
def max(column: str, *, windows: Windows = (), where: str | None = None, hop: str | None = None) -> Declared: ...
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
    function: str, column: str, *, windows: Windows = (), where: str | None = None, hop: str | None = None
) -> Declared:
    return Declared(function, column, where, windows, hop)


def first(column: str, *, windows: Windows = (), where: str | None = None, hop: str | None = None) -> Declared:
    """The value with the earliest event time; nulls are passed over, ties go to the smaller id."""
    return Declared("first", column, where, windows, hop)


def last(column: str, *, windows: Windows = (), where: str | None = None, hop: str | None = None) -> Declared:
    """The value with the latest event time; nulls are passed over, ties go to the greater id."""
    return Declared("last", column, where, windows, hop)


def distinct(
    column: str,
    *,
    windows: Windows = (),
    where: str | None = None,
    hop: str | None = None,
    error: float = DEFAULT_ERROR,
) -> Declared:
    """How many different values, by HyperLogLog with the stated relative standard error."""
    return Declared("distinct", column, where, windows, hop, error)


def quantile(
    column: str,
    share: float,
    *,
    windows: Windows = (),
    where: str | None = None,
    hop: str | None = None,
    error: float = DEFAULT_ERROR,
) -> Declared:
    """The smallest value that at least this share of the values do not exceed, by KLL with the stated error of rank."""
    return Declared("quantile", column, where, windows, hop, error, share)


def ewm(
    column: str, *, halflife: str, windows: Windows = (), where: str | None = None, hop: str | None = None
) -> Declared:
    """The exponentially weighted mean of a column: a value counts half as much as one a half-life later."""
    return Declared("ewm", column, where, windows, hop, halflife=halflife)


def top(
    column: str,
    k: int,
    *,
    windows: Windows = (),
    where: str | None = None,
    hop: str | None = None,
    error: float = DEFAULT_ERROR,
) -> Declared:
    """The k most frequent values, most frequent first, by frequent items whose counts have the stated error."""
    return Declared("top", column, where, windows, hop, error, k=k)
