"""`hr.min`: the smallest value of a column, or of several features."""

from typing import Any, overload

from headrace.aggregates.selection.extremes import Extreme, declare_extreme
from headrace.declare.features.aggregate_rules import register_aggregate
from headrace.declare.features.aggregates import AggregateDeclaration
from headrace.declare.features.operands import Operand
from headrace.declare.features.windows import WindowLengths


@overload
def min(
    column: str, *, windows: WindowLengths = (), where: str | None = None, hop: str | None = None
) -> AggregateDeclaration: ...
@overload
def min(column: Operand, *others: object) -> Operand: ...
def min(column: str | Operand, *operands: object, **settings: Any) -> AggregateDeclaration | Operand:
    """The smallest value of a column, or of several features; NaN counts as greater than every number."""
    return declare_extreme(Min.name, "least", column, operands, settings)


@register_aggregate
class Min(Extreme):
    """The smallest value."""

    name = "min"
    usage = "hr.min(c)"
    gives = "the smallest value, of the column's type"
    is_min = True
