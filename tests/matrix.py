"""The support matrix, generated from the tests' marks: `python -m tests.matrix` rewrites docs/operators.md.

    @pytest.mark.shows("session window", lane="micro-batch", late=("drop", "update"))    a test sees it hold
    @pytest.mark.shows("session window", kills=20)                                       … through so many kill -9
    @pytest.mark.refuses("pattern", late="update")                                       a test sees it refused
    @pytest.mark.shows("Postgres", delivery="exactly_once", kills=20)                    of a sink

Marks are read from the files: a table that no test stands behind cannot be written.
"""

import ast
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from headrace.declare.sinks.target import DELIVERIES
from headrace.declare.sinks.targets import TARGETS

ROOT = Path(__file__).parent.parent
PAGE = ROOT / "docs" / "operators.md"
OPERATORS = (
    "feature view",
    "derived function",
    "enrichment",
    "tumbling window",
    "sliding window",
    "session window",
    "global window",
    "stream-stream join",
    "as-of join",
    "pattern",
)
LANES = ("real-time", "micro-batch")
POLICIES = ("drop", "side_output", "update")
SINKS = tuple(target.__name__ for target in TARGETS)
TABLES = ((OPERATORS, (*LANES, *POLICIES)), (SINKS, DELIVERIES))
HEAD = """<a id="what-runs-where"></a>
# Support matrix: what runs where

Written by `python -m tests.matrix` from the marks of the tests, and checked by one of them. ✓: a test sees it hold,
against brute force or the pure operator. **refused**: a test sees it refused, with its line and the remedy. Empty: not
tried. `headrace plan` says which lane each of your declarations takes, and why.

"""
FOOT = """
Any stream, derived stream, view or model may have a sink; see [delivery semantics](sinks.md#delivery-semantics).

## The tests

"""


@dataclass
class Seen:
    """The marks of one operator or sink: its cells, the most kills it survived, and the names of its tests."""

    cells: dict[str, str] = field(default_factory=dict)
    kills: int = 0
    tests: list[str] = field(default_factory=list)


def page() -> str:
    """The whole page."""
    seen = gathered()
    tables = ["\n".join(_table(seen, names, columns)) for names, columns in TABLES]
    return HEAD + "\n\n".join(tables) + "\n" + FOOT + "\n".join(_tests(seen)) + "\n"


def gathered() -> dict[str, Seen]:
    """The marks of each operator's and sink's tests."""
    seen: dict[str, Seen] = defaultdict(Seen)
    columns = {name: columns for names, columns in TABLES for name in names}
    for test, word, name, cells in _marks():
        if name not in columns:
            raise ValueError(f"{test}: there is no operator and no sink {name!r}. They are {', '.join(columns)}.")
        of = seen[name]
        of.kills = max(of.kills, cells.pop("kills", 0))
        of.tests.append(test)
        for cell in (cell for some in cells.values() for cell in ((some,) if isinstance(some, str) else some)):
            if cell not in columns[name]:
                raise ValueError(f"{test}: {name} has no {cell!r}. There is {', '.join(columns[name])}.")
            of.cells[cell] = "✓" if word == "shows" else "refused"
    return seen


def _marks() -> Iterator[tuple[str, str, str, dict[str, Any]]]:
    for file in sorted((ROOT / "tests").rglob("test_*.py")):
        text = file.read_text()
        if "mark.shows" not in text and "mark.refuses" not in text:
            continue
        for function in ast.walk(ast.parse(text)):
            if isinstance(function, ast.FunctionDef):
                for word, names, cells in filter(None, map(_mark, function.decorator_list)):
                    for name in names:
                        yield f"{file.relative_to(ROOT)}::{function.name}", word, name, dict(cells)


def _mark(decorator: ast.expr) -> tuple[str, list[str], dict[str, Any]] | None:
    if not isinstance(decorator, ast.Call) or not isinstance(decorator.func, ast.Attribute):
        return None
    if decorator.func.attr not in ("shows", "refuses"):
        return None
    cells = {word.arg or "": ast.literal_eval(word.value) for word in decorator.keywords}
    return decorator.func.attr, [ast.literal_eval(argument) for argument in decorator.args], cells


def _table(seen: dict[str, Seen], names: Sequence[str], columns: Sequence[str]) -> Iterator[str]:
    yield f"| | {' | '.join(name.replace('_', ' ') for name in columns)} | kill -9 |"
    yield f"| --- |{' --- |' * (len(columns) + 1)}"
    for row in names:
        of = seen.get(row, Seen())
        cells = [of.cells.get(name, "").replace("refused", "**refused**") for name in columns]
        yield f"| {row} | {' | '.join(cells)} | {f'{of.kills} ×' if of.kills else ''} |"


def _tests(seen: dict[str, Seen]) -> Iterator[str]:
    for name in (name for names, _ in TABLES for name in names):
        for test in dict.fromkeys(seen.get(name, Seen()).tests):
            yield f"- {name}: `{test}`"


if __name__ == "__main__":
    PAGE.write_text(page())
