"""`hr.last`: the value with the latest event time."""

from headrace.aggregates.selection.occurrences import OccurrenceFunction
from headrace.declare.features.aggregate_rules import register_aggregate
from headrace.declare.features.aggregates import AggregateDeclaration
from headrace.declare.features.windows import WindowLengths


def last(
    column: str, *, windows: WindowLengths = (), where: str | None = None, hop: str | None = None
) -> AggregateDeclaration:
    """The value with the latest event time; nulls are ignored, ties go to the greater id."""
    return AggregateDeclaration(Last.name, column, where, windows, hop)


@register_aggregate
class Last(OccurrenceFunction):
    """The latest value."""

    name = "last"
    usage = "hr.last(c)"
    gives = "the value of the latest event, of the column's type"
    is_first = False
