"""Every claim of docs/what-it-speaks.md names an existing test, and nothing is both claimed and untested."""

import ast
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "what-it-speaks.md").read_text()
CLAIMED, _, NOT_TRIED = PAGE.partition("## Not tried")
TEST = re.compile(r"`(tests/[\w/]+\.py)::(test_\w+)`")


def rows(text: str) -> list[list[str]]:
    """The cells of every table, without heads and rules."""
    lines = [line.strip("| ").split(" | ") for line in text.splitlines() if line.startswith("|")]
    return [cells for cells in lines if cells[0] != "what" and not set(cells[0]) <= set("-| ")]


def names_in(file: Path) -> set[str]:
    return {node.name for node in ast.walk(ast.parse(file.read_text())) if isinstance(node, ast.FunctionDef)}


@pytest.mark.parametrize("cells", rows(CLAIMED), ids=lambda cells: cells[0])
def test_a_claim_names_what_it_was_tried_with_and_a_test_that_exists(cells: list[str]) -> None:
    assert len(cells) == 3, cells
    named = TEST.fullmatch(cells[2])
    assert named is not None, f"{cells[0]}: {cells[2]} is no test"
    file = ROOT / named[1]
    assert file.is_file(), f"{cells[0]}: there is no {named[1]}"
    assert named[2] in names_in(file), f"{cells[0]}: {named[1]} has no {named[2]}"


def test_there_are_claims_and_what_was_not_tried_says_why_not() -> None:
    assert len(rows(CLAIMED)) > 15
    for what, why in rows(NOT_TRIED):
        assert what
        assert why
        assert "`tests/" not in why
