"""The section's arithmetic, on made-up figures."""

from dataclasses import replace
from pathlib import Path

import pytest

from bench.errors import BenchFailed, Skipped
from bench.nexmark import engines, section
from bench.nexmark.catalogue import QUERIES
from bench.nexmark.drains import Drained
from bench.nexmark.section import FULL, Found, rate, result
from bench.page import BEGIN, END, publish
from bench.percentiles import Spread
from bench.section import Run
from tests.bench.test_results import kept

FOUND = Found(
    read=dict.fromkeys(QUERIES, 100_000),
    drained={
        "q9": {"micro-batch": Drained(8.0), "Flink": Drained(4.0)},
        "q0": {"micro-batch": Drained(2.0), "real-time": Drained(5.0), "app": Drained(10.0), "Flink": Drained(4.0)},
        "q3": {"micro-batch": Drained(2.0, "1 of 2 rows missing"), "Flink": Drained(4.0)},
        "q4": {"micro-batch": Drained(2.0), "Flink": Drained(5.0)},
        "q5": {"micro-batch": Drained(None, "no answer within 60 s"), "Flink": Drained(4.0)},
    },
    delays={"q0": {"real-time": Spread(100, 3.0, 4.0, 9.0), "Flink": "no answer within 60 s"}},
)


def cells(found: Found) -> dict[str, list[str]]:
    return {row[0]: list(row[1:]) for row in result(found, FULL).table.rows}


def test_queries_are_in_their_order_and_the_better_lane_is_compared() -> None:
    assert [*cells(FOUND)] == ["q0", "q3", "q4", "q5", "q9"]
    assert cells(FOUND)["q0"] == ["50,000", "20,000", "10,000", "25,000", "2.00 ×"]


def test_what_reads_another_answer_is_charged_for_it_but_not_in_flink() -> None:
    assert rate(FOUND, "q4", "micro-batch") == 100_000 / (2.0 + 8.0)
    assert rate(FOUND, "q4", "Flink") == 100_000 / 5.0


def test_a_wrong_answer_has_no_figure_and_misses_the_goal() -> None:
    assert cells(FOUND)["q3"] == ["WRONG", "", "", "25,000", ""]
    (goal,) = result(FOUND, FULL).goals
    assert (goal.met, goal.found) == (False, "q3 micro-batch, q5 micro-batch")


def test_what_took_too_long_is_said_to_have_failed() -> None:
    assert cells(FOUND)["q5"] == ["failed", "", "", "25,000", ""]
    assert "| q0, Flink     | failed |" in "\n".join(result(FOUND, FULL).notes)


def test_an_answer_that_rests_on_a_wrong_one_has_no_figure() -> None:
    wrong = replace(FOUND, drained=FOUND.drained | {"q9": {"micro-batch": Drained(8.0, "wrong")}})
    assert rate(wrong, "q4", "micro-batch") is None


def test_where_flink_cannot_be_had_the_page_says_so(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    def absent(_broker: str, _folder: Path) -> engines.Program:
        raise Skipped("Flink cannot be installed: no network")

    monkeypatch.setattr(engines, "flink", absent)
    said: list[str] = []
    with section.ExitStack() as stack:
        contenders, why = section._contenders(Run(True, tmp_path, said.append), "127.0.0.1:1", stack)
    assert [one.name for one in contenders] == ["micro-batch", "real-time"]
    assert said[-1] == "Flink is left out: Flink cannot be installed: no network"
    assert "**Flink was left out: Flink cannot be" in result(replace(FOUND, without=why), FULL).notes[-1]


def test_a_query_there_is_not_is_refused_with_those_there_are(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NEXMARK", "q0,q10")
    with pytest.raises(BenchFailed, match=r"there is no query q10\. There are q0, q1"):
        section._in_order()


def test_a_full_run_puts_its_tables_on_a_page_of_their_own(tmp_path: Path) -> None:
    for name in ("benchmarks.md", "nexmark.md"):
        (tmp_path / name).write_text(f"# Words\n{BEGIN}\nold\n{END}\n")
    publish({"nexmark": replace(kept("nexmark"), result=result(FOUND, FULL))}, tmp_path)
    page = (tmp_path / "nexmark.md").read_text()
    assert page.startswith("# Words")
    assert "| q0       |" in page
    assert "old" not in page
