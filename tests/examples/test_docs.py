import re
from pathlib import Path

import pytest

from headrace.declare.aggregates import hop_for, sketch_lg_k
from headrace.declare.durations import duration_text, duration_us

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").rglob("*.md"))]
names = [str(page.relative_to(ROOT)) for page in PAGES]


def table_after(page: Path, heading: str) -> list[list[str]]:
    """The cells of the first table after a text, without its head."""
    rest = page.read_text().split(heading, 1)[1]
    rows = re.search(r"(?:^\|.*\n)+", rest, re.MULTILINE)
    assert rows is not None
    return [[cell.strip() for cell in row.strip("| ").split("|")] for row in rows[0].splitlines()[2:]]


def anchors(page: Path) -> set[str]:
    headings = re.findall(r"^#+ (.+)$", page.read_text(), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading).strip().lower().replace(" ", "-") for heading in headings}


@pytest.mark.parametrize("page", PAGES, ids=names)
def test_the_examples_of_a_page_run(page):
    namespace: dict[str, object] = {}
    for block in re.findall(r"^```python\n(.*?)^```", page.read_text(), re.MULTILINE | re.DOTALL):
        exec(compile(block, str(page), "exec"), namespace)


@pytest.mark.parametrize("page", PAGES, ids=names)
def test_the_links_of_a_page_lead_somewhere(page):
    for target in re.findall(r"\]\((?!https?:)([^)]+)\)", page.read_text()):
        path, _, anchor = target.partition("#")
        there = (page.parent / path).resolve() if path else page
        assert there.exists(), target
        assert not anchor or anchor in anchors(there), target


def test_the_table_of_hops_is_the_one_that_is_used():
    rows = table_after(ROOT / "docs" / "declarations.md", "## Windows and hops")
    for window, hop, _ in rows[1:]:
        length_us = duration_us(window.removeprefix("from ").replace(" ", ""), "the table")
        assert duration_text(hop_for(length_us)) == hop.replace(" ", "")
        assert hop_for(length_us - 1000) < hop_for(length_us)
    assert duration_text(hop_for(duration_us("239s", "the table"))) == "1s"


def test_the_table_of_errors_is_the_one_that_is_used():
    rows = table_after(ROOT / "docs" / "declarations.md", "It costs up to this much a tile")
    for error, registers, stated, _ in rows:
        k = 2 ** sketch_lg_k(float(error.split()[0]))
        assert k == int(registers.replace(",", ""))
        assert f"{104 / k**0.5:.1f} %" == stated
