"""The table of aggregates in the docs is generated from the classes."""

from headrace.aggregates.aggregate_function import aggregate_functions
from tests.docs_tables import made_table, require_table, row


def table() -> str:
    """A row a function, in the order of the alphabet."""
    rows = sorted(
        row(f"`{function.usage}`", function.takes, function.gives, function.of_nothing)
        for function in aggregate_functions()
    )
    return made_table(["", "takes", "gives", "of nothing"], rows)


def test_the_docs_have_a_row_of_every_aggregate_function() -> None:
    require_table("declarations.md", "| | takes | gives |", table())
