"""The aggregates a feature view is made of."""

from dataclasses import dataclass
from typing import Any, overload

from headrace.declare.expressions import Expression
from headrace.declare.features.operands import Operand, OutputLeaf, build_call
from headrace.declare.features.windows import WindowLengths
from headrace.declare.streams.schema import Kind
from headrace.errors import DeclarationError

DEFAULT_ERROR = 0.02


@dataclass(frozen=True)
class AggregateDeclaration:
    """An aggregate as it was written; a view reads it against its stream."""

    function: str
    column: str | None
    where: str | None
    windows: WindowLengths
    hop: str | None
    error: float | None = None
    share: float | None = None
    halflife: str | None = None
    k: int | None = None

    def __getitem__(self, window: str) -> Operand:
        """Its value over one of its windows, to compute with."""
        return Operand(OutputLeaf(self, window))

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
    def is_list_valued(self) -> bool:
        return self.function == "top"

    @property
    def is_map_valued(self) -> bool:
        return self.function == "count_by"


@overload
def count(*, windows: WindowLengths = (), where: str | None = None, hop: str | None = None) -> AggregateDeclaration: ...
@overload
def count(
    *,
    by: str,
    windows: WindowLengths = (),
    where: str | None = None,
    hop: str | None = None,
    error: float = DEFAULT_ERROR,
) -> AggregateDeclaration: ...
def count(
    *,
    windows: WindowLengths = (),
    by: str | None = None,
    where: str | None = None,
    hop: str | None = None,
    error: float | None = None,
) -> AggregateDeclaration:
    """How many events; with `by`, a map of how many each value of that column has, by frequent items."""
    if by is not None:
        return AggregateDeclaration("count_by", by, where, windows, hop, DEFAULT_ERROR if error is None else error)
    if error is not None:
        raise DeclarationError(f'hr.count(error={error!r}): a count is exact. Leave error= out, or add by="column".')
    return AggregateDeclaration("count", None, where, windows, hop)


def sum(
    column: str, *, windows: WindowLengths = (), where: str | None = None, hop: str | None = None
) -> AggregateDeclaration:
    """The sum of a column; integers are summed exactly."""
    return AggregateDeclaration("sum", column, where, windows, hop)


def mean(
    column: str, *, windows: WindowLengths = (), where: str | None = None, hop: str | None = None
) -> AggregateDeclaration:
    """The mean of a column."""
    return AggregateDeclaration("mean", column, where, windows, hop)


def stddev(
    column: str, *, windows: WindowLengths = (), where: str | None = None, hop: str | None = None
) -> AggregateDeclaration:
    """The sample standard deviation of a column; null below two values."""
    return AggregateDeclaration("stddev", column, where, windows, hop)


def var(
    column: str, *, windows: WindowLengths = (), where: str | None = None, hop: str | None = None
) -> AggregateDeclaration:
    """The sample variance of a column; null below two values."""
    return AggregateDeclaration("var", column, where, windows, hop)


@overload
def min(
    column: str, *, windows: WindowLengths = (), where: str | None = None, hop: str | None = None
) -> AggregateDeclaration: ...
@overload
def min(column: Operand, *others: object) -> Operand: ...
def min(column: str | Operand, *operands: object, **settings: Any) -> AggregateDeclaration | Operand:
    """The smallest value of a column, or of some features; NaN counts as greater than every number."""
    return _declare_extreme("min", "least", column, operands, settings)


@overload
def max(
    column: str, *, windows: WindowLengths = (), where: str | None = None, hop: str | None = None
) -> AggregateDeclaration: ...
@overload
def max(column: Operand, *others: object) -> Operand: ...
def max(column: str | Operand, *operands: object, **settings: Any) -> AggregateDeclaration | Operand:
    """The greatest value of a column, or of some features; NaN counts as greater than every number."""
    return _declare_extreme("max", "greatest", column, operands, settings)


def _declare_extreme(
    function: str, op: str, column: str | Operand, operands: tuple[object, ...], settings: dict[str, Any]
) -> AggregateDeclaration | Operand:
    if isinstance(column, Operand) or any(isinstance(operand, Operand) for operand in operands):
        return build_call(op, column, *operands)
    if operands:
        raise DeclarationError(
            f"hr.{function}({column!r}, {operands[0]!r}): write a column and windows=…, or features with their windows."
        )
    return _declare_column_aggregate(function, column, **settings)


def _declare_column_aggregate(
    function: str, column: str, *, windows: WindowLengths = (), where: str | None = None, hop: str | None = None
) -> AggregateDeclaration:
    return AggregateDeclaration(function, column, where, windows, hop)


def first(
    column: str, *, windows: WindowLengths = (), where: str | None = None, hop: str | None = None
) -> AggregateDeclaration:
    """The value with the earliest event time; nulls are passed over, ties go to the smaller id."""
    return AggregateDeclaration("first", column, where, windows, hop)


def last(
    column: str, *, windows: WindowLengths = (), where: str | None = None, hop: str | None = None
) -> AggregateDeclaration:
    """The value with the latest event time; nulls are passed over, ties go to the greater id."""
    return AggregateDeclaration("last", column, where, windows, hop)


def distinct(
    column: str,
    *,
    windows: WindowLengths = (),
    where: str | None = None,
    hop: str | None = None,
    error: float = DEFAULT_ERROR,
) -> AggregateDeclaration:
    """How many different values, by HyperLogLog with the stated relative standard error."""
    return AggregateDeclaration("distinct", column, where, windows, hop, error)


def quantile(
    column: str,
    share: float,
    *,
    windows: WindowLengths = (),
    where: str | None = None,
    hop: str | None = None,
    error: float = DEFAULT_ERROR,
) -> AggregateDeclaration:
    """The smallest value that at least this share of the values do not exceed, by KLL with the stated error of rank."""
    return AggregateDeclaration("quantile", column, where, windows, hop, error, share)


def ewm(
    column: str, *, halflife: str, windows: WindowLengths = (), where: str | None = None, hop: str | None = None
) -> AggregateDeclaration:
    """The exponentially weighted mean of a column: a value counts half as much as one a half-life later."""
    return AggregateDeclaration("ewm", column, where, windows, hop, halflife=halflife)


def top(
    column: str,
    k: int,
    *,
    windows: WindowLengths = (),
    where: str | None = None,
    hop: str | None = None,
    error: float = DEFAULT_ERROR,
) -> AggregateDeclaration:
    """The k most frequent values, most frequent first, by frequent items whose counts have the stated error."""
    return AggregateDeclaration("top", column, where, windows, hop, error, k=k)
