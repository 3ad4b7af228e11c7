"""`hr.first`: the value with the earliest event time."""

from headrace.aggregates.selection.occurrences import OccurrenceFunction
from headrace.declare.features.aggregate_rules import register_aggregate
from headrace.declare.features.aggregates import AggregateDeclaration
from headrace.declare.features.windows import WindowLengths


def first(
    column: str, *, windows: WindowLengths = (), where: str | None = None, hop: str | None = None
) -> AggregateDeclaration:
    """The value with the earliest event time; nulls are ignored, ties go to the smaller id."""
    return AggregateDeclaration(First.name, column, where, windows, hop)


@register_aggregate
class First(OccurrenceFunction):
    """The earliest value."""

    name = "first"
    usage = "hr.first(c)"
    gives = "the value of the earliest event, of the column's type"
    is_first = True
