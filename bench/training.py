"""Section training: training sets, compared with a hand-written Spark SQL range join and DuckDB of the same windows."""

import json
import subprocess
import sys
from collections.abc import Iterator
from typing import Any

from bench.parts import ROOT
from bench.results import Goal, Result, Table
from bench.section import Run

DENSE, SPARSE = 10_000, 50
SIZES = {"full": (200_000, 1_000_000, 5_000_000), "quick": (200_000,)}
NOTE = (
    "Ten features (two counts, two sums, mean, stddev, min, max, first, last) over 1 h, 1 d and 7 d of 30 days, by "
    "event time, on all cores, from Parquet to Parquet; a row for every eightieth event. Dense is 10,000 events a "
    "card, sparse 50; hot has half of all events on one card. Every way takes each payment once. Before a time counts, "
    "the sums of all columns must agree. Each way runs once, in this order, one process a case, after each has run on "
    "half a million other events: the first seconds of a JVM are not in the figures."
)


def measure(run: Run) -> Result:
    """Run the section."""
    return result([_taken(run, *case) for case in _cases(run)], run.quick)


def result(found: list[dict[str, Any]], quick: bool) -> Result:
    """The section's table and figures."""
    return Result(
        section="training",
        table=Table(
            ["", "rows", "Headrace", "rows/s", "Spark SQL", "faster", "DuckDB", "faster"], [_row(one) for one in found]
        ),
        figures={"cases": found},
        goals=() if quick else _goals(found),
        notes=[NOTE, *_with_repeats(found)],
    )


def _with_repeats(found: list[dict[str, Any]]) -> list[str]:
    """The duration of the range join without deduplication of payments."""
    sparse = [one for one in found if one["sql_with_repeats_seconds"]]
    taken = [f"{one['case']['events']:,} sparse events in {one['sql_with_repeats_seconds']:.1f} s" for one in sparse]
    return [f"Without looking for repeats the range join takes {', '.join(taken)}."] if taken else []


def _cases(run: Run) -> Iterator[tuple[int, int, bool]]:
    for events in SIZES["quick" if run.quick else "full"]:
        yield events, SPARSE, False
        yield events, DENSE, False
    yield SIZES["quick" if run.quick else "full"][-1], DENSE, True


def _taken(run: Run, events: int, per_card: int, hot: bool) -> dict[str, Any]:
    run.say(f"{events:,} events, {per_card:,} a card{', half of them on one' if hot else ''}")
    folder = run.folder / f"{events}-{per_card}-{hot}"
    # Half of a large case on one card is a join of each of its rows with a seventh of all events: hours.
    flags = ["--hot", "--alone"] if hot else []
    command = [sys.executable, "-m", "bench.training_sets", str(folder), "--events", str(events)]
    ran = subprocess.run(
        [*command, "--per-card", str(per_card), *flags], cwd=ROOT, check=True, stdout=subprocess.PIPE, text=True
    )
    taken: dict[str, Any] = json.loads(ran.stdout.splitlines()[-1])
    return taken


def _row(taken: dict[str, Any]) -> list[str]:
    case, ours = taken["case"], taken["headrace_seconds"]
    kind = "hot" if case["hot"] else "dense" if case["per_card"] == DENSE else "sparse"
    others = [part for way in ("sql", "duckdb") for part in _beside(ours, taken[f"{way}_seconds"])]
    return [
        f"{case['events']:,} {kind}",
        f"{taken['rows']:,}",
        f"{ours:.1f} s",
        f"{taken['rows'] / ours:,.0f}",
        *others,
    ]


def _beside(ours: float, theirs: float | None) -> tuple[str, str]:
    return ("—", "—") if theirs is None else (f"{theirs:.1f} s", f"{theirs / ours:.1f}×")


def _goals(found: list[dict[str, Any]]) -> list[Goal]:
    by_case = {(one["case"]["events"], one["case"]["per_card"], one["case"]["hot"]): one for one in found}
    sizes = SIZES["full"]
    dense, sparse, hot = (by_case[sizes[-1], *rest] for rest in ((DENSE, False), (SPARSE, False), (DENSE, True)))
    smaller = by_case[sizes[-2], DENSE, False]
    grown, heated = (_times(dense, smaller), _times(hot, dense))
    return [
        _at_least("5 times the speed of the range join at 5 million dense events", dense, 5),
        _at_least("not slower than it at 5 million sparse ones", sparse, 1),
        _at_most("5 times the time for 5 times the events", grown, 5),
        _at_most("twice the time with half of the events on one card", heated, 2),
    ]


def _times(one: dict[str, Any], other: dict[str, Any]) -> float:
    return float(one["headrace_seconds"] / other["headrace_seconds"])


def _at_least(wanted: str, taken: dict[str, Any], times: float) -> Goal:
    found = taken["sql_seconds"] / taken["headrace_seconds"]
    return Goal(wanted, f"{found:.1f}×", found >= times)


def _at_most(wanted: str, found: float, times: float) -> Goal:
    return Goal(f"at most {wanted}", f"{found:.1f}×", found <= times)
