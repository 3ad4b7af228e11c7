"""Figures are written to tables, files and a page, and read back unchanged."""

import doctest
import importlib
from datetime import UTC, datetime
from pathlib import Path

import pytest

from bench.errors import BenchFailed
from bench.machine import Machine
from bench.page import BEGIN, END, figures, with_figures
from bench.percentiles import Spread, percentile
from bench.results import Goal, Kept, Result, Table, latest

QUIET = Machine("Some CPU", 2, 23.5, "6.1", "3.11.7", "17.0.15", "4.3.0", "4.3.1", "7.0.15", "4.1.0", "abc1234", 0.1)
BUSY = Machine(**(vars(QUIET) | {"load_at_start": 7.5}))


def kept(section: str, machine: Machine = QUIET, day: int = 1) -> Kept:
    table = Table(["producer to HTTP", "P50"], [["real-time", "9.1 ms"]])
    found = Result(section, table, {"p50": 9.1}, [Goal("under 15 ms", "9.1 ms", met=True)], ["Warmed up."])
    return Kept(found, machine, datetime(2026, 1, day, 12, tzinfo=UTC))


@pytest.mark.parametrize(
    "name", ["drain", "entities", "machine", "page", "peers.feast.server", "percentiles", "results"]
)
def test_docstring_examples_run(name: str) -> None:
    assert doctest.testmod(importlib.import_module(f"bench.{name}")).failed == 0


def test_percentiles_are_values_of_the_sample() -> None:
    sample = [float(number) for number in range(1, 201)]
    assert Spread.of(sample) == Spread(200, 100.0, 180.0, 198.0)
    assert percentile([7.0], 99) == 7.0


def test_nothing_has_no_percentile() -> None:
    with pytest.raises(BenchFailed, match="nothing was measured"):
        Spread.of([])


def test_a_kept_result_is_read_back_as_it_was(tmp_path: Path) -> None:
    page = kept("latency").keep(tmp_path)
    assert page.name == "2026-01-01-latency.md"
    assert latest(tmp_path)["latency"].markdown() == page.read_text()


def test_the_latest_result_of_a_section_counts(tmp_path: Path) -> None:
    for day in (2, 1):
        kept("latency", day=day).keep(tmp_path)
    assert latest(tmp_path)["latency"].at.day == 2


def test_a_page_says_on_which_machine_and_whether_a_goal_was_met() -> None:
    text = kept("latency").markdown()
    assert "Some CPU, 2 cores" in text
    assert "- met: under 15 ms; found 9.1 ms" in text
    assert "busy" not in text


def test_figures_of_a_busy_machine_are_marked() -> None:
    assert "load average is 7.5" in kept("latency", BUSY).markdown()
    assert "The machine was busy" in figures({"latency": kept("latency", BUSY)})


def test_only_the_figures_of_the_page_change() -> None:
    page = f"# Words\n{BEGIN}\nold\n{END}\nmore words\n"
    assert with_figures(page, "new") == f"# Words\n{BEGIN}\n\nnew\n\n{END}\nmore words\n"


def test_the_docs_have_a_place_for_figures() -> None:
    page = (Path(__file__).parents[2] / "docs" / "benchmarks.md").read_text()
    assert page.index(BEGIN) < page.index(END)
