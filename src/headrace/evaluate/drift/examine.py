"""What was served beside what was trained on: each column by each test, and which of them tell of drift.

A test tells of drift where two things hold:
    its statistic is greater than chance would make it, at the chance that all tests of a day share, and
    its effect is greater than the least that matters, however surely there is a smaller one.
Its multiple is how many times both hold, the lesser of the two: above 1 is drift.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from headrace.declare.durations import UNITS_US
from headrace.evaluate.drift import statistics
from headrace.evaluate.drift.layout import Layout
from headrace.score.reference import Counts, Floats

NUMBERS_ALONE = ("ks", "infinite")
OF_GROUPS = ("psi", "js", "chi_square")
OF_SHARES = ("missing", "infinite", "unseen")
TESTS = (*OF_GROUPS, "ks", *OF_SHARES)
LEAST_CHANCE = 1e-300  # a smaller one is none to a double


@dataclass(frozen=True)
class Policy:
    """When to tell of drift.

    `alarms_a_day` is how many false alarms chance may make, over all columns, tests and segments together, where a
    window is looked at `every_us`. Fewer rows than `least_rows` tell nothing. PSI and Jensen-Shannon, chi-square in
    PSI's measure, have to exceed `least_psi`; KS `least_ks`; shares that are missing, infinite or unseen `least_share`.
    """

    alarms_a_day: float = 0.1
    every_us: int = UNITS_US["m"]
    least_rows: int = 200
    least_psi: float = 0.1
    least_ks: float = 0.1
    least_share: float = 0.01

    def alpha(self, layout: Layout, segments: int = 1) -> float:
        """The chance each test has to tell of drift without any: the day's, shared by all (Bonferroni's way)."""
        return self.alarms_a_day * self.every_us / UNITS_US["d"] / (_tests(layout) * segments)

    def least(self, test: str) -> float:
        """The least effect of a test that matters."""
        return self.least_ks if test == "ks" else self.least_psi if test in OF_GROUPS else self.least_share


class Test(NamedTuple):
    """One test of every window and column: `critical` is what its statistic has to exceed, NaN where it is exact.

    `effect` is in the measure of the policy's least, `distance` in PSI's, so that columns can be ranked by it.
    `multiple` is NaN where a column cannot be judged: it is of another kind, or has too few rows.
    """

    statistic: Floats
    critical: Floats
    chance: Floats
    effect: Floats
    distance: Floats
    multiple: Floats

    @property
    def drifted(self) -> NDArray[np.bool_]:
        """Which windows and columns drifted by this test."""
        return self.multiple > 1


@dataclass(frozen=True)
class Finding:
    """One test of one column that tells of drift, or does not."""

    column: str
    test: str
    statistic: float
    critical: float
    chance: float
    effect: float
    multiple: float

    @property
    def drifted(self) -> bool:
        return self.multiple > 1


@dataclass(frozen=True)
class Examined:
    """The tests of some windows: arrays of windows by columns; `distance` is the greatest that drifted, in PSI's.

    `ks_error` is how much greater Kolmogorov and Smirnov's statistic may be than its bins can tell.
    """

    columns: tuple[str, ...]
    alpha: float
    tests: Mapping[str, Test]
    distance: Floats
    ks_error: Floats

    @property
    def drifted(self) -> NDArray[np.bool_]:
        """Which windows and columns drifted, by any test."""
        found: NDArray[np.bool_] = np.any([test.drifted for test in self.tests.values()], axis=0)
        return found

    @property
    def multiple(self) -> Floats:
        """Of every window and column the greatest multiple of its tests; NaN where none could be judged."""
        greatest: Floats = np.fmax.reduce([test.multiple for test in self.tests.values()])
        return greatest

    def findings(self) -> Iterator[Finding]:
        """Every test of every column of one window."""
        for name, test in self.tests.items():
            for place, column in enumerate(self.columns):
                if np.isfinite(test.chance[place]):
                    yield Finding(
                        column=column,
                        test=name,
                        statistic=float(test.statistic[place]),
                        critical=float(test.critical[place]),
                        chance=float(test.chance[place]),
                        effect=float(test.effect[place]),
                        multiple=float(test.multiple[place]),
                    )


def examine(layout: Layout, before: Counts, now: Counts, policy: Policy | None = None, segments: int = 1) -> Examined:
    """The windows of `now` beside `before`; `segments` is how many share the day's chance."""
    policy = policy or Policy()
    alpha = policy.alpha(layout, segments)
    values = statistics.sizes(before[..., layout.values], now[..., layout.values], layout.value_begins)
    ks, ks_error = _ks(layout, before, now)
    measured = _of_groups(layout, before, now, values, alpha) | {"ks": _of_ks(ks, values, alpha)}
    measured |= _of_shares(layout, before, now, values)
    tests = {name: _judged(name, measured[name], layout, policy, alpha) for name in TESTS}
    distance: Floats = np.max([np.where(test.drifted, test.distance, 0.0) for test in tests.values()], axis=0)
    return Examined(layout.names, alpha, tests, distance, ks_error)


class _Measured(NamedTuple):
    statistic: Floats
    critical: Floats
    chance: Floats
    effect: Floats
    distance: Floats
    rows: statistics.Sizes


def _tests(layout: Layout) -> int:
    """How many tests a window undergoes."""
    return len(TESTS) * len(layout.columns) - len(NUMBERS_ALONE) * int((~layout.is_number).sum())


def _of_groups(
    layout: Layout, before: Counts, now: Counts, rows: statistics.Sizes, alpha: float
) -> dict[str, _Measured]:
    """PSI, Jensen-Shannon and chi-square: n times PSI, 8 n times JS and chi-square are about the same."""
    was, is_, begins = layout.groups(before), layout.groups(now), layout.group_begins
    together = np.maximum(rows.together, 1e-9)
    found = {
        "psi": (statistics.psi(was, is_, begins), together),
        "js": (statistics.jensen_shannon(was, is_, begins), 8 * together),
        "chi_square": (statistics.chi_square(was, is_, begins), np.ones_like(together)),
    }
    critical = statistics.chi_square_critical(alpha, layout.freedom)
    measured = {}
    for name, (statistic, scale) in found.items():
        chance = statistics.chi_square_chance(scale * statistic, layout.freedom)
        effect = np.maximum(scale * statistic - layout.freedom, 0) / together  # less what chance alone makes of it
        measured[name] = _Measured(statistic, critical / scale, chance, effect, effect, rows)
    return measured


def _ks(layout: Layout, before: Counts, now: Counts) -> tuple[Floats, Floats]:
    return statistics.kolmogorov_smirnov(before[..., layout.values], now[..., layout.values], layout.value_begins)


def _of_ks(ks: Floats, rows: statistics.Sizes, alpha: float) -> _Measured:
    together = np.maximum(rows.together, 1e-9)
    critical, chance = statistics.ks_critical(alpha, together), statistics.ks_chance(ks, together)
    return _Measured(ks, critical, chance, ks, 4 * ks**2, rows)  # two groups so far apart have at least that index


def _of_shares(layout: Layout, before: Counts, now: Counts, values: statistics.Sizes) -> dict[str, _Measured]:
    """Null and NaN, infinite, and never seen: of all rows, of those that are there, of those that have a value."""
    missing = [rows[..., layout.apart] + rows[..., layout.apart + 1] for rows in (before, now)]
    infinite = [rows[..., layout.apart + 2] for rows in (before, now)]
    there = statistics.Sizes(values.before + infinite[0], values.now + infinite[1])
    every = statistics.Sizes(there.before + missing[0], there.now + missing[1])
    by_chance = np.where(layout.is_number, 2, 0)  # of n numbers the next is beyond both ends with 2 / (n + 1)
    return {
        "missing": _share(missing[0], missing[1], every),
        "infinite": _share(infinite[0], infinite[1], there),
        "unseen": _share(
            np.minimum(_at_edges(layout, before) + by_chance, values.before), _at_edges(layout, now), values
        ),
    }


def _at_edges(layout: Layout, now: Counts) -> Counts:
    """Rows below the least and above the greatest number, or with a text that is not listed."""
    low, high = layout.edges[:, 0], layout.edges[:, 1]
    found: Counts = now[..., high] + np.where(low == high, 0, now[..., low])
    return found


def _share(before: NDArray[Any], now: NDArray[Any], rows: statistics.Sizes) -> _Measured:
    was, is_ = before / np.maximum(rows.before, 1), now / np.maximum(rows.now, 1)
    apart = np.abs(is_ - was)
    groups = [
        np.stack(np.broadcast_arrays(part, whole - part), -1) for part, whole in zip((before, now), rows, strict=True)
    ]
    distance = statistics.psi(groups[0], groups[1])[..., 0]
    return _Measured(
        apart, np.full_like(apart, np.nan), statistics.share_chance(before, now, rows), apart, distance, rows
    )


def _judged(name: str, measured: _Measured, layout: Layout, policy: Policy, alpha: float) -> Test:
    """A test with its verdict; where a column is of another kind, or has too few rows, it has no chance to be wrong."""
    statistic, critical, chance, effect, distance, rows = measured
    fits = layout.is_number if name in NUMBERS_ALONE else True
    enough = fits & (rows.now >= policy.least_rows) & (rows.before >= policy.least_rows)
    critical = np.broadcast_to(critical, chance.shape)
    sure = _exact(chance, alpha) if name in OF_SHARES else statistic / critical
    least = policy.least(name)
    matters = effect / least if least else np.full_like(effect, np.inf)
    multiple = np.where(enough, np.minimum(sure, matters), np.nan)
    return Test(statistic, critical, np.where(enough, chance, np.nan), effect, distance, multiple)


def _exact(chance: Floats, alpha: float) -> Floats:
    """How many times as sure as it has to be, of tests that have a chance and no critical value: by its magnitude."""
    sure: Floats = np.log(np.maximum(chance, LEAST_CHANCE)) / np.log(alpha)
    return sure
