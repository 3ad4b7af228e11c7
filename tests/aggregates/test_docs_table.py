"""The table of aggregates in the docs is made from the classes; HEADRACE_GOLDEN=write writes it anew."""

import os
from pathlib import Path

from headrace.aggregates.aggregate_function import aggregate_functions

PAGE = Path(__file__).parents[2] / "docs" / "declarations.md"
HEADER = "| | takes | gives | of nothing |\n| --- | --- | --- | --- |\n"


def table() -> str:
    """A row a function, in the order of the alphabet."""
    rows = sorted(
        f"| `{function.usage}` | {function.takes} | {function.gives} | {function.of_nothing} |\n"
        for function in aggregate_functions()
    )
    return HEADER + "".join(rows)


def test_the_docs_have_a_row_of_every_aggregate_function() -> None:
    before, header, rest = PAGE.read_text().partition(HEADER)
    found, end, after = (header + rest).partition("\n\n")
    if os.environ.get("HEADRACE_GOLDEN") == "write":
        PAGE.write_text(before + table().rstrip("\n") + end + after)
    else:
        assert found + "\n" == table()
