"""Evaluates expressions in numpy, with SQL's three-valued logic: the same results as Spark's columns."""

from collections.abc import Callable, Mapping

import numpy as np

from headrace.aggregates.value_columns import Data, Mask, ValueColumn, constant_column
from headrace.declare.expressions import Expression, Field, Literal


def evaluate(tree: Expression, columns: Mapping[str, ValueColumn], count: int) -> ValueColumn:
    """The values of a tree for `count` rows."""
    with np.errstate(all="ignore"):
        return _evaluate(tree, columns, count)


def evaluate_condition(tree: Expression | None, columns: Mapping[str, ValueColumn], count: int) -> Mask:
    """Where a condition is true; null is not, and no condition always is."""
    if tree is None:
        return np.ones(count, np.bool_)
    result = evaluate(tree, columns, count)
    return result.data.astype(np.bool_) & result.valid


def _evaluate(tree: Expression, columns: Mapping[str, ValueColumn], count: int) -> ValueColumn:
    if isinstance(tree, Field):
        return columns[tree.name]
    if isinstance(tree, Literal):
        return constant_column(tree.value, count)
    return _KERNELS[tree.op](*(_evaluate(arg, columns, count) for arg in tree.args))


def _to_common_type(*args: ValueColumn) -> tuple[Data, ...]:
    """The data of several columns as one type: integers become doubles next to doubles."""
    if len({arg.data.dtype for arg in args}) > 1:
        return tuple(arg.data.astype(np.float64) for arg in args)
    return tuple(arg.data for arg in args)


def _arithmetic(compute: Callable[[Data, Data], Data]) -> Callable[[ValueColumn, ValueColumn], ValueColumn]:
    def call(left: ValueColumn, right: ValueColumn) -> ValueColumn:
        return ValueColumn(compute(*_to_common_type(left, right)), left.valid & right.valid)

    return call


def _divide(left: ValueColumn, right: ValueColumn) -> ValueColumn:
    divided = np.divide(left.data, right.data, dtype=np.float64)
    return ValueColumn(divided, left.valid & right.valid & (right.data != 0))


def _remainder(left: ValueColumn, right: ValueColumn) -> ValueColumn:
    """The remainder has the sign of the dividend, as in Java; null for a zero divisor."""
    dividend, divisor = _to_common_type(left, right)
    is_nonzero = divisor != 0
    return ValueColumn(np.fmod(dividend, np.where(is_nonzero, divisor, 1)), left.valid & right.valid & is_nonzero)


def _comparison(compare: Callable[[Data, Data], Mask]) -> Callable[[ValueColumn, ValueColumn], ValueColumn]:
    def call(left: ValueColumn, right: ValueColumn) -> ValueColumn:
        return ValueColumn(compare(*_to_common_type(left, right)).astype(np.bool_), left.valid & right.valid)

    return call


def _is_nan(data: Data) -> Mask:
    return np.isnan(data) if data.dtype == np.float64 else np.zeros(len(data), np.bool_)


def _equal(left: Data, right: Data) -> Mask:
    equal: Mask = (left == right) | (_is_nan(left) & _is_nan(right))
    return equal


def _less(left: Data, right: Data) -> Mask:
    """NaN is greater than every other number."""
    less: Mask = (left < right) | (~_is_nan(left) & _is_nan(right))
    return less


def _and(left: ValueColumn, right: ValueColumn) -> ValueColumn:
    """False wins over null, null over true."""
    is_false = (left.valid & ~left.data) | (right.valid & ~right.data)
    return ValueColumn(left.data & right.data & ~is_false, is_false | (left.valid & right.valid))


def _or(left: ValueColumn, right: ValueColumn) -> ValueColumn:
    return _not(_and(_not(left), _not(right)))


def _not(arg: ValueColumn) -> ValueColumn:
    return ValueColumn(~arg.data, arg.valid)


def _is_null(arg: ValueColumn) -> ValueColumn:
    return ValueColumn(~arg.valid, np.ones(len(arg), np.bool_))


def _coalesce(*args: ValueColumn) -> ValueColumn:
    arrays = _to_common_type(*args)
    data, valid = arrays[-1], args[-1].valid
    for earlier, arg in zip(arrays[-2::-1], args[-2::-1], strict=True):
        data, valid = np.where(arg.valid, earlier, data), arg.valid | valid
    return ValueColumn(data, valid)


def _ln(arg: ValueColumn) -> ValueColumn:
    """Null for zero and below, as in Spark; NaN for NaN."""
    data = arg.data.astype(np.float64)
    return ValueColumn(np.log(data), arg.valid & ~(data <= 0))


def _sqrt(arg: ValueColumn) -> ValueColumn:
    return ValueColumn(np.sqrt(arg.data.astype(np.float64)), arg.valid)


def _extreme(replaces: Callable[[Data, Data], Mask]) -> Callable[..., ValueColumn]:
    """The least or the greatest of the non-null arguments."""

    def call(*args: ValueColumn) -> ValueColumn:
        arrays = _to_common_type(*args)
        data, valid = arrays[0], args[0].valid
        for other, arg in zip(arrays[1:], args[1:], strict=True):
            better = arg.valid & (~valid | replaces(other, data))
            data, valid = np.where(better, other, data), valid | arg.valid
        return ValueColumn(data, valid)

    return call


def _if(condition: ValueColumn, then: ValueColumn, otherwise: ValueColumn) -> ValueColumn:
    left, right = _to_common_type(then, otherwise)
    is_then = condition.data & condition.valid
    return ValueColumn(np.where(is_then, left, right), np.where(is_then, then.valid, otherwise.valid))


_KERNELS: dict[str, Callable[..., ValueColumn]] = {
    "+": _arithmetic(np.add),
    "-": _arithmetic(np.subtract),
    "*": _arithmetic(np.multiply),
    "/": _divide,
    "%": _remainder,
    "=": _comparison(_equal),
    "<>": _comparison(lambda left, right: ~_equal(left, right)),
    "<": _comparison(_less),
    "<=": _comparison(lambda left, right: ~_less(right, left)),
    ">": _comparison(lambda left, right: _less(right, left)),
    ">=": _comparison(lambda left, right: ~_less(left, right)),
    "and": _and,
    "or": _or,
    "not": _not,
    "is null": _is_null,
    "abs": lambda arg: ValueColumn(np.abs(arg.data), arg.valid),
    "coalesce": _coalesce,
    "ln": _ln,
    "sqrt": _sqrt,
    "least": _extreme(_less),
    "greatest": _extreme(lambda left, right: _less(right, left)),
    "if": _if,
}
