"""The expression tree in numpy, with SQL's three values: the same answers as its Spark column."""

from collections.abc import Callable, Mapping

import numpy as np

from headrace.declare.expressions import Expression, Field, Literal
from headrace.tiles.columns import Data, Mask, Values, repeated


def evaluate(tree: Expression, columns: Mapping[str, Values], count: int) -> Values:
    """The values a tree gives for `count` rows."""
    with np.errstate(all="ignore"):
        return _evaluate(tree, columns, count)


def holds(tree: Expression | None, columns: Mapping[str, Values], count: int) -> Mask:
    """Where a condition is true; null is not, and no condition always is."""
    if tree is None:
        return np.ones(count, np.bool_)
    found = evaluate(tree, columns, count)
    return found.data.astype(np.bool_) & found.valid


def _evaluate(tree: Expression, columns: Mapping[str, Values], count: int) -> Values:
    if isinstance(tree, Field):
        return columns[tree.name]
    if isinstance(tree, Literal):
        return repeated(tree.value, count)
    return _CALLS[tree.op](*(_evaluate(arg, columns, count) for arg in tree.args))


def _alike(*args: Values) -> tuple[Data, ...]:
    """The data of several columns as one type: doubles where integers meet doubles."""
    if len({arg.data.dtype for arg in args}) > 1:
        return tuple(arg.data.astype(np.float64) for arg in args)
    return tuple(arg.data for arg in args)


def _arithmetic(compute: Callable[[Data, Data], Data]) -> Callable[[Values, Values], Values]:
    def call(left: Values, right: Values) -> Values:
        return Values(compute(*_alike(left, right)), left.valid & right.valid)

    return call


def _divide(left: Values, right: Values) -> Values:
    divided = np.divide(left.data, right.data, dtype=np.float64)
    return Values(divided, left.valid & right.valid & (right.data != 0))


def _remainder(left: Values, right: Values) -> Values:
    """The remainder has the sign of the dividend, as in Java; there is none by zero."""
    dividend, divisor = _alike(left, right)
    there = divisor != 0
    return Values(np.fmod(dividend, np.where(there, divisor, 1)), left.valid & right.valid & there)


def _comparison(compare: Callable[[Data, Data], Mask]) -> Callable[[Values, Values], Values]:
    def call(left: Values, right: Values) -> Values:
        return Values(compare(*_alike(left, right)).astype(np.bool_), left.valid & right.valid)

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


def _and(left: Values, right: Values) -> Values:
    """False wins over null, null over true."""
    a_false = (left.valid & ~left.data) | (right.valid & ~right.data)
    return Values(left.data & right.data & ~a_false, a_false | (left.valid & right.valid))


def _or(left: Values, right: Values) -> Values:
    return _not(_and(_not(left), _not(right)))


def _not(arg: Values) -> Values:
    return Values(~arg.data, arg.valid)


def _is_null(arg: Values) -> Values:
    return Values(~arg.valid, np.ones(len(arg), np.bool_))


def _coalesce(*args: Values) -> Values:
    datas = _alike(*args)
    data, valid = datas[-1], args[-1].valid
    for earlier, arg in zip(datas[-2::-1], args[-2::-1], strict=True):
        data, valid = np.where(arg.valid, earlier, data), arg.valid | valid
    return Values(data, valid)


def _ln(arg: Values) -> Values:
    """There is no logarithm of zero and below, as in Spark; that of NaN is NaN."""
    data = arg.data.astype(np.float64)
    return Values(np.log(data), arg.valid & ~(data <= 0))


def _sqrt(arg: Values) -> Values:
    return Values(np.sqrt(arg.data.astype(np.float64)), arg.valid)


def _extreme(replaces: Callable[[Data, Data], Mask]) -> Callable[..., Values]:
    """The least or the greatest of those that are there."""

    def call(*args: Values) -> Values:
        datas = _alike(*args)
        data, valid = datas[0], args[0].valid
        for other, arg in zip(datas[1:], args[1:], strict=True):
            better = arg.valid & (~valid | replaces(other, data))
            data, valid = np.where(better, other, data), valid | arg.valid
        return Values(data, valid)

    return call


def _if(condition: Values, then: Values, otherwise: Values) -> Values:
    left, right = _alike(then, otherwise)
    chosen = condition.data & condition.valid
    return Values(np.where(chosen, left, right), np.where(chosen, then.valid, otherwise.valid))


_CALLS: dict[str, Callable[..., Values]] = {
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
    "abs": lambda arg: Values(np.abs(arg.data), arg.valid),
    "coalesce": _coalesce,
    "ln": _ln,
    "sqrt": _sqrt,
    "least": _extreme(_less),
    "greatest": _extreme(lambda left, right: _less(right, left)),
    "if": _if,
}
