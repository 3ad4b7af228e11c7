"""Tables of the docs that are generated from the code; HEADRACE_GOLDEN=write rewrites them."""

import os
from collections.abc import Iterable
from pathlib import Path

DOCS = Path(__file__).parents[1] / "docs"
IS_WRITTEN = os.environ.get("HEADRACE_GOLDEN") == "write"


def row(*cells: str) -> str:
    return "|" + "".join(f" {cell} |" if cell else " |" for cell in cells)


def made_table(head: Iterable[str], rows: Iterable[str]) -> str:
    """A Markdown table with these header cells and rows."""
    cells = list(head)
    return "\n".join([row(*cells), f"|{' --- |' * len(cells)}", *rows])


def require_table(page: str, begins: str, made: str) -> None:
    """Require that the table of a page with this header equals the generated one; or rewrite it."""
    file = DOCS / page
    before, beginning, rest = file.read_text().partition(f"\n{begins}")
    assert beginning, f"docs/{page} has no table whose head begins with {begins}"
    found, end, after = (begins + rest).partition("\n\n")
    if IS_WRITTEN:
        file.write_text(f"{before}\n{made}{end}{after}")
    else:
        assert found == made, f"HEADRACE_GOLDEN=write rewrites docs/{page}"
