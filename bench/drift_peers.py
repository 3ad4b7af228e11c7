"""Section drift-peers: the same windows for Headrace, for River's ADWIN and for Evidently, each with its defaults.

simulated   windows without drift, and with one input that drifted
flights     the year 2013 out of New York, week by week against January and February, and the same rows shuffled
"""

import json
import subprocess
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from river.drift import ADWIN

from bench.drifting import COUNTRIES, DRIFTS, INPUTS, REFERENCE_ROWS, drawn, layout_of, windows
from bench.errors import BenchFailed, Skipped
from bench.flights import Series, flights
from bench.peers.evidently.setup import EVIDENTLY
from bench.results import Result, Table
from bench.section import Run
from headrace.monitoring.drift.drift_layout import ALL_ROWS, DriftLayout
from headrace.monitoring.drift.drift_tests import run_drift_tests

COMPARE = Path(__file__).parent / "peers" / "evidently" / "compare.py"
COMPARE_SECONDS = 150.0
PEER_ROWS = (300, 3_000)
FULL_SEEDS, QUICK_SEEDS = 5, 2
NOTE = (
    "Columns told to have drifted (in rows with a drifted feature: windows whose feature was told), each by its own "
    "defaults; River's ADWIN gets the columns of numbers value by value, scaled to [0, 1]. Shuffled flights are the "
    "same rows in a random order: nothing drifts. What did drift from week to week nobody knows. Nothing here is timed."
)


@dataclass(frozen=True)
class Beside:
    """The columns that each tool reports as drifted in windows of one kind, and their total; None if it is missing."""

    kind: str
    of: int
    ours: int
    river: int | None
    evidently: int | None


def measure(run: Run) -> Result:
    """Run the section."""
    run.say("River and Evidently")
    return result(beside(run, QUICK_SEEDS if run.quick else FULL_SEEDS, flights()))


def beside(run: Run, seeds: int, series: Series) -> list[Beside]:
    """The same windows for ours, for River's ADWIN on each column of numbers, and for Evidently."""
    cases = [*_simulated(seeds), *_weeks(series)]
    drifted = _by_evidently(run, cases)
    return [_compared(case, None if drifted is None else drifted[index]) for index, case in enumerate(cases)]


def _by_evidently(run: Run, cases: Sequence["Case"]) -> list[list[list[str]]] | None:
    """Evidently's drifted columns of every window of every case; None, with a note, if it is missing or too slow."""
    try:
        programs = EVIDENTLY.set_up()
        for place, case in enumerate(cases):
            case.reference.to_parquet(run.folder / f"{place}.reference.parquet")
            numbered = [frame.assign(window=number) for number, frame in enumerate(case.windows)]
            pd.concat(numbered).to_parquet(run.folder / f"{place}.windows.parquet")
        drifted = _compare([str(programs / "python"), str(COMPARE), str(run.folder), str(len(cases))])
    except Skipped as why:
        run.say(f"Evidently is left out: {why}")
        return None
    return [[of[str(number)] for number in range(len(case.windows))] for of, case in zip(drifted, cases, strict=True)]


def _compare(command: Sequence[str]) -> list[dict[str, list[str]]]:
    try:
        ran = subprocess.run(command, capture_output=True, text=True, check=False, timeout=COMPARE_SECONDS)
    except subprocess.TimeoutExpired as late:
        raise Skipped(f"it took more than {COMPARE_SECONDS:g} s.") from late
    if ran.returncode != 0:
        raise BenchFailed(f"Evidently did not compare:\n{ran.stderr[-3000:]}")
    drifted: list[dict[str, list[str]]] = json.loads(ran.stdout.splitlines()[-1])
    return drifted


@dataclass(frozen=True)
class Case:
    """Windows of one kind with their reference; `wanted` is the drifted column of each, or None."""

    kind: str
    reference: pd.DataFrame
    windows: Sequence[pd.DataFrame]
    wanted: Sequence[str | None]
    is_stream: bool = False


def _simulated(seeds: int) -> Iterator[Case]:
    """Windows of two sizes, without drift and entirely after a drift of one input."""
    rng = np.random.default_rng(17)
    inputs = [*INPUTS]
    reference = pd.DataFrame(drawn(rng, REFERENCE_ROWS).frame)[inputs]
    for rows in PEER_ROWS:
        quiet = [pd.DataFrame(drawn(rng, rows).frame)[inputs] for _ in range(5 * seeds)]
        yield Case(f"{rows:,} rows without drift", reference, quiet, [None] * len(quiet))
        moved = [drawn(rng, rows, DRIFTS[2]) for _ in range(5 * seeds)]
        frames = [pd.DataFrame(one.frame)[inputs] for one in moved]
        yield Case(f"{rows:,} rows, one feature drifted", reference, frames, [one.column for one in moved])


def _weeks(series: Series) -> Iterator[Case]:
    nothing = [None] * len(series.weeks)
    yield Case("flights, shuffled", series.shuffled_reference, series.shuffled_weeks, nothing, is_stream=True)
    yield Case("flights, week by week", series.reference, series.weeks, nothing, is_stream=True)


def _compared(case: Case, evidently: Sequence[Sequence[str]] | None) -> Beside:
    layout = layout_of(_columns(case.reference))
    ours = [_ours(layout, window) for window in case.windows]
    wanted = case.wanted if any(case.wanted) else None
    return Beside(
        kind=case.kind,
        of=len(case.windows) * (1 if wanted else len(case.reference.columns)),
        ours=_counted(ours, wanted),
        river=_by_adwin(case) if case.is_stream else None,
        evidently=None if evidently is None else _counted(evidently, wanted),
    )


def _counted(drifted: Sequence[Sequence[str]], wanted: Sequence[str | None] | None) -> int:
    """The number of reported columns; with `wanted`, of windows whose wanted column is reported."""
    if wanted is None:
        return sum(map(len, drifted))
    return sum(column in columns for column, columns in zip(wanted, drifted, strict=True))


def _ours(layout: DriftLayout, window: pd.DataFrame) -> list[str]:
    counts = windows(layout, _columns(window), len(window), 1)
    drifted = run_drift_tests(layout, layout.reference, counts[ALL_ROWS][0]).drifted
    return [name for name, one in zip(layout.names, drifted.tolist(), strict=True) if one]


def _columns(frame: pd.DataFrame) -> dict[str, NDArray[np.generic]]:
    """Columns with a country, as in events: the same for all, so that it is no segment."""
    country = COUNTRIES[:1].repeat(len(frame))
    return {str(name): frame[name].to_numpy() for name in frame.columns} | {"country": country}


def _by_adwin(case: Case) -> int:
    """The number of weeks in which ADWIN detects drift of a numeric column, after the reference, scaled to [0, 1]."""
    detections = 0
    for name in case.reference.select_dtypes("number").columns:
        low, high = case.reference[name].quantile([0.01, 0.99])
        adwin = ADWIN()
        for place, frame in enumerate([case.reference, *case.windows]):
            scaled = np.clip((frame[name].dropna().to_numpy() - low) / (high - low), 0, 1).tolist()
            detected = False
            for value in scaled:
                adwin.update(value)
                detected |= adwin.drift_detected
            detections += detected and place > 0
    return detections


def result(peers: Sequence[Beside]) -> Result:
    """The section's table."""
    rows = [[one.kind, *(_of(count, one.of) for count in (one.ours, one.river, one.evidently))] for one in peers]
    return Result(
        section="drift-peers",
        table=Table(["windows", "Headrace", "River's ADWIN", "Evidently"], rows),
        figures={"beside": [asdict(one) for one in peers]},
        notes=[NOTE],
    )


def _of(count: int | None, of: int) -> str:
    return "" if count is None else f"{count} of {of}"
