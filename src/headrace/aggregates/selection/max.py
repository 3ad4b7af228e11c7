"""`hr.max`: the greatest value of a column, or of several features."""

from typing import Any, overload

from headrace.aggregates.selection.extremes import Extreme, declare_extreme
from headrace.declare.features.aggregate_rules import register_aggregate
from headrace.declare.features.aggregates import AggregateDeclaration
from headrace.declare.features.operands import Operand
from headrace.declare.features.windows import WindowLengths


@overload
def max(
    column: str, *, windows: WindowLengths = (), where: str | None = None, hop: str | None = None
) -> AggregateDeclaration: ...
@overload
def max(column: Operand, *others: object) -> Operand: ...
def max(column: str | Operand, *operands: object, **settings: Any) -> AggregateDeclaration | Operand:
    """The greatest value of a column, or of several features; NaN counts as greater than every number."""
    return declare_extreme(Max.name, "greatest", column, operands, settings)


@register_aggregate
class Max(Extreme):
    """The greatest value."""

    name = "max"
    usage = "hr.max(c)"
    gives = "the greatest value, of the column's type"
    is_min = False
