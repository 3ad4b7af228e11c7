"""Section drift: detection rate, delay, ranking of the drifted input, and false alarms.

without   a million events a day, a window of an hour tested every minute              false alarms
with      4,000 events without drift, 4,000 with, 50 a minute, 200 seeds a kind         delay, the input ranked first
errors    a million of one share, and 200 runs in which they double
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass

import numpy as np
from numpy.typing import NDArray
from river.drift import ADWIN
from river.drift.binary import DDM

from bench.drifting import DRIFTS, REFERENCE_ROWS, Drawn, Drift, drawn, layout_of, windows
from bench.results import Goal, Result, Table
from bench.section import Run
from headrace.models.versions.reference_distribution import Segment
from headrace.monitoring.drift import statistics
from headrace.monitoring.drift.drift_layout import DriftLayout
from headrace.monitoring.drift.drift_tests import DriftPolicy, DriftTestReport, run_drift_tests
from headrace.monitoring.drift.ranking import rank_drifted
from headrace.monitoring.drift.sequential_detection import CONFIRM_WITHIN_OUTCOMES, ErrorDriftDetector

RATE, WINDOW, BEFORE, AFTER = 50, 60, 80, 80  # events a minute; minutes
DAY_RATE, DAY = 695, 1440
RIGHT_FIRST = 0.95
QUIET_ERRORS = 5_000  # before they double; afterwards a run is as long as a confirmation may take
NOTE = (
    "A reference of 10,000 rows, 8 inputs and a score, 4 countries as segments; a window of an hour, looked at every "
    "minute, at the policy's defaults. Delay: events from the first that drifted to the end of the first window that "
    "tells of it. Ranked first: the input that drifted most, in the segment that drifted, among all inputs and "
    "segments at that moment. Nothing here is timed: how busy the machine was does not matter. "
)


@dataclass(frozen=True)
class Size:
    """The size of the simulation."""

    seeds: int
    days: int


FULL, QUICK = Size(200, 10), Size(20, 1)


@dataclass(frozen=True)
class Found:
    """The results of the runs with one kind of drift."""

    runs: int
    found: int
    early: int
    first: int
    p50_events: float
    p90_events: float


@dataclass(frozen=True)
class Quiet:
    """The alarms on days without drift."""

    days: int
    events: int
    tests: int
    alarms: int
    fixed_psi: float
    ours_on_the_same: float
    tails: Mapping[str, float]


@dataclass(frozen=True)
class Errors:
    """The sequential detectors: alarms over a million errors of one share; after it doubled how often and how soon that
    was suspected, and confirmed.
    """

    adwin: int
    ddm: int
    both: int
    runs: int
    suspected: "Delayed"
    confirmed: "Delayed"


@dataclass(frozen=True)
class Delayed:
    """The number of runs, and the delays in events."""

    found: int
    p50_events: float
    p90_events: float

    @classmethod
    def of(cls, delays: Sequence[int | None]) -> "Delayed":
        there = [delay for delay in delays if delay is not None]
        p50, p90 = np.quantile(there or [np.inf], [0.5, 0.9]).tolist()
        return cls(len(there), p50, p90)


def measure(run: Run) -> Result:
    """Run the section."""
    size = QUICK if run.quick else FULL
    run.say(f"{size.days} days without drift, a million events each")
    quiet = without_drift(size.days)
    found = {}
    for drift in DRIFTS:
        run.say(f"{drift.name}: {size.seeds} runs")
        found[drift.name] = summed_up([one_run(drift, seed) for seed in range(size.seeds)])
    run.say("errors one by one")
    errors = sequential(size.seeds)
    return result(quiet, found, errors)


def without_drift(days: int) -> Quiet:
    """The alarms on days without drift, in runs of consecutive windows."""
    alarms = tests = 0
    for day in range(days):
        rng = np.random.default_rng([7, day])
        layout = layout_of(drawn(rng, REFERENCE_ROWS).frame)
        counts = windows(layout, drawn(rng, DAY_RATE * DAY).frame, DAY_RATE, WINDOW)
        for examined in examined_by(layout, counts).values():
            alarms += runs_of(examined.drifted)
            tests += sum(int(np.isfinite(test.p_value).sum()) for test in examined.tests.values())
    fixed, ours = small_windows()
    return Quiet(days, days * DAY_RATE * DAY, tests, alarms, fixed, ours, tails())


def small_windows(rows: int = 100, count: int = 20_000) -> tuple[float, float]:
    """The share of small windows without drift on which a fixed PSI of 0.1 raises an alarm, and ours at 1 in 1,000."""
    rng = np.random.default_rng(1)
    before, now = (rng.multinomial(size, np.full(10, 0.1), count) for size in (REFERENCE_ROWS, rows))
    index, together = statistics.psi(before, now), statistics.sample_sizes(before, now).effective_size
    critical = statistics.chi_square_critical(0.001, np.array([9])) / together
    return float((index > 0.1).mean()), float((index > np.maximum(critical, 0.1)).mean())


def tails(alpha: float = 1e-5, rounds: int = 6, count: int = 500_000) -> dict[str, float]:
    """How often the smallest windows exceed critical values without drift, relative to their nominal rate."""
    rng, freedom, rows = np.random.default_rng(3), np.array([9]), DriftPolicy().least_rows
    above = dict.fromkeys(("psi", "js", "chi_square"), 0)
    critical = statistics.chi_square_critical(alpha, freedom)
    for _ in range(rounds):
        before, now = (rng.multinomial(size, np.full(10, 0.1), count) for size in (REFERENCE_ROWS, rows))
        together = statistics.sample_sizes(before, now).effective_size
        above["psi"] += int((statistics.psi(before, now) * together > critical).sum())
        above["js"] += int((statistics.jensen_shannon(before, now) * 8 * together > critical).sum())
        above["chi_square"] += int((statistics.chi_square(before, now) > critical).sum())
    return {name: exceeded / (rounds * count * alpha) for name, exceeded in above.items()}


def examined_by(
    layout: DriftLayout, counts: Mapping[tuple[Segment, ...], NDArray[np.int64]]
) -> dict[tuple[Segment, ...], DriftTestReport]:
    """Every window of every segment, compared with the training data."""
    return {
        segment: run_drift_tests(layout, layout.segments[segment], of, DriftPolicy(), len(layout.segments))
        for segment, of in counts.items()
    }


def runs_of(drifted: NDArray[np.bool_]) -> int:
    """The number of alarms: consecutive windows with the same drifted column are one.

    >>> runs_of(np.array([[0, 1, 1, 0, 1]], bool).T)
    2
    """
    return int((np.diff(drifted.astype(np.int8), axis=0, prepend=0) > 0).sum())


@dataclass(frozen=True)
class OneRun:
    """One run: events until detection (None if never), whether early, and whether the right input ranked first."""

    delay: int | None
    early: bool
    right: bool


def one_run(drift: Drift, seed: int) -> OneRun:
    """Simulate events that start to drift, window by window, until detection."""
    rng = np.random.default_rng([DRIFTS.index(drift), seed])
    layout = layout_of(drawn(rng, REFERENCE_ROWS).frame)
    live = drawn(rng, RATE * (BEFORE + AFTER), drift, RATE * BEFORE)
    counts = windows(layout, live.frame, RATE, WINDOW)
    detected = np.any([one.drifted.any(axis=-1) for one in examined_by(layout, counts).values()], axis=0)
    ends = np.arange(len(detected)) + WINDOW
    early, late = detected & (ends <= BEFORE), np.flatnonzero(detected & (ends > BEFORE))
    if not len(late):
        return OneRun(None, bool(early.any()), False)
    first = examined_by(layout, {segment: of[late[0]] for segment, of in counts.items()})
    return OneRun(int(ends[late[0]] - BEFORE) * RATE, bool(early.any()), _is_right(first, live))


def _is_right(examined: Mapping[tuple[Segment, ...], DriftTestReport], live: Drawn) -> bool:
    """Whether the input that drifted most ranks first; in a segment, that segment's."""
    inputs = [one for one in rank_drifted(examined, {}) if not one.is_score]
    in_place = not live.segment or (bool(inputs) and inputs[0].segment == live.segment)
    return bool(inputs) and in_place and inputs[0].column == live.column


def summed_up(runs: Sequence[OneRun]) -> Found:
    """The summary of the runs with one kind of drift."""
    delays = [one.delay for one in runs if one.delay is not None] or [np.inf]
    return Found(
        runs=len(runs),
        found=sum(one.delay is not None for one in runs),
        early=sum(one.early for one in runs),
        first=sum(one.right for one in runs),
        p50_events=float(np.quantile(delays, 0.5)),
        p90_events=float(np.quantile(delays, 0.9)),
    )


def sequential(seeds: int) -> Errors:
    """The detectors of errors: a million of one share, then runs in which it doubles from 10 %."""
    rng = np.random.default_rng(11)
    quiet = (rng.random(1_000_000) < 0.1).tolist()
    adwin, ddm, watch = ADWIN(), DDM(), ErrorDriftDetector()
    alarms = np.zeros(3, np.int64)
    for wrong in quiet:
        change = watch.update(wrong)
        adwin.update(wrong)
        ddm.update(wrong)
        alarms += (adwin.drift_detected, ddm.drift_detected, change is not None and change.is_confirmed)
    delays = [_error_delays(seed) for seed in range(seeds)]
    suspected, confirmed = (Delayed.of(of) for of in zip(*delays, strict=True))
    return Errors(int(alarms[0]), int(alarms[1]), int(alarms[2]), seeds, suspected, confirmed)


def _error_delays(seed: int) -> tuple[int | None, int | None]:
    """The events until doubled errors were suspected and confirmed; a confirmation is a suspicion too."""
    rng, watch = np.random.default_rng([13, seed]), ErrorDriftDetector()
    wrong = np.concatenate([rng.random(QUIET_ERRORS) < 0.1, rng.random(CONFIRM_WITHIN_OUTCOMES) < 0.2]).tolist()
    suspected = None
    for one in wrong:
        change = watch.update(one)
        if change is not None and change.outcome_number > QUIET_ERRORS:
            suspected = suspected or change.outcome_number - QUIET_ERRORS
            if change.is_confirmed:
                return suspected, change.outcome_number - QUIET_ERRORS
    return suspected, None


def result(quiet: Quiet, found: Mapping[str, Found], errors: Errors) -> Result:
    """The section's table, goals and figures."""
    head = ["drift", "found", "P50", "P90", "ranked first", "told before it began"]
    rows = [_row(name, one) for name, one in found.items()]
    rows += [_error_row(word, getattr(errors, word), errors.runs) for word in ("suspected", "confirmed")]
    return Result(
        section="drift",
        table=Table(head, rows),
        figures={
            "quiet": asdict(quiet),
            "found": {name: asdict(one) for name, one in found.items()},
            "errors": asdict(errors),
        },
        goals=[*_goals(quiet, found, errors)],
        notes=[NOTE, _quiet_note(quiet, errors)],
    )


def _row(name: str, one: Found) -> list[str]:
    share = f"{one.first}/{one.runs}"
    delays = [f"{one.p50_events:,.0f} events", f"{one.p90_events:,.0f} events"]
    return [name, f"{one.found}/{one.runs}", *delays, share, f"{one.early}/{one.runs}"]


def _error_row(word: str, one: Delayed, runs: int) -> list[str]:
    delays = [f"{one.p50_events:,.0f} events", f"{one.p90_events:,.0f} events"]
    return [f"errors doubled: {word}", f"{one.found}/{runs}", *delays, "", ""]


def _quiet_note(quiet: Quiet, errors: Errors) -> str:
    tail = ", ".join(f"{name} {times:.1f}" for name, times in quiet.tails.items())
    return (
        f"{quiet.events:,} events without drift in {quiet.days} days: {quiet.tests:,} tests, {quiet.alarms} alarms. A "
        f"fixed PSI of 0.1 alarms on {quiet.fixed_psi:.0%} of windows of 100 rows without drift, one scaled by size at "
        f"a chance of 0.1 % on {quiet.ours_on_the_same:.2%}. Windows of 200 rows exceed critical values of a chance of "
        f"1e-5 so many times as often: {tail}. A million errors at 10 %: ADWIN {errors.adwin} alarms, "
        f"DDM {errors.ddm}, both together {errors.both}."
    )


def _goals(quiet: Quiet, found: Mapping[str, Found], errors: Errors) -> Iterator[Goal]:
    a_day = quiet.alarms / quiet.days
    yield Goal("fewer than 1 false alarm in a day of a million events", f"{a_day:.2g} a day", a_day < 1)
    yield Goal("no false alarm over a million errors", str(errors.both), errors.both == 0)
    twice = errors.confirmed.found
    yield Goal("errors doubled: confirmed in every run", f"{twice} of {errors.runs}", twice == errors.runs)
    for name, one in found.items():
        yield Goal(f"{name}: found in every run", f"{one.found} of {one.runs}", one.found == one.runs)
        share = one.first / one.runs
        yield Goal(f"{name}: the right input first in {RIGHT_FIRST:.0%}", f"{share:.1%}", share >= RIGHT_FIRST)
