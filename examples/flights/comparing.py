"""Compares Headrace's results for a season with a brute-force computation."""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

import pyarrow.compute as pc
from landed import Lake, between
from seen import FIRST, Month
from truth import Landed, auc, states

from headrace.declare.models.labels import Labels
from headrace.declare.models.model import Model
from headrace.monitoring.outcomes.join_query import RECORDED_GRAIN_US

STATES = ("matched", "pending", "expired", "orphan")


class Compared(NamedTuple):
    """One result of Headrace, and the brute-force result."""

    what: str
    found: str
    expected: str
    is_same: bool

    @property
    def words(self) -> str:
        return f"{self.what}: {self.found}, by brute force {self.expected}"


def compared_states(lake: Lake, labels: Labels, landed: Landed, metrics: Mapping[str, float]) -> Compared:
    """The counts of outcomes by state, from /metrics and from the recordings at the same clock."""
    found = told_states(lake.model, metrics)
    clock_us = int(metrics[f'headrace_outcomes_clock_seconds{{model="{lake.model.name}"}}'] * 1e6)
    together_us = clock_us - clock_us % RECORDED_GRAIN_US  # the join closes recorded time in steps of this length
    expected = states(lake.table("id", "event_time"), landed, labels, together_us)
    return Compared(" + ".join(STATES), _added_up(found), _added_up(expected), found == expected)


def told_states(model: Model, metrics: Mapping[str, float]) -> Counter[str]:
    """The number of predictions and labels per state, over all versions and roles."""
    counts: Counter[str] = Counter()
    for name, count in metrics.items():
        if name.startswith(f'headrace_outcomes{{model="{model.name}"'):
            counts[name.partition('state="')[2].partition('"')[0]] += int(count)
    return counts


def compared_areas(lake: Lake, landed: Landed, months: Sequence[Month]) -> Iterator[Compared]:
    """The AUC of every month from tiles, and from raw predictions and labels by scikit-learn."""
    rows = lake.table("id", "score", "event_time", "version", "role")
    for month in months:
        of_month = between(rows, "event_time", month.begin, month.end)
        for name, column, value, reading in (
            ("the first version", "version", FIRST, month.first_auc),
            ("the champion", "role", "champion", month.champion_auc),
        ):
            expected = auc(of_month.filter(pc.equal(of_month[column], value)), landed)
            found = reading.value if reading.value is not None else -1.0
            text, is_same = f"{found:.4f} ± {reading.error:.4f}", abs(found - expected) <= reading.error
            yield Compared(f"AUC of {name} in {month.name}", text, f"{expected:.4f}", is_same)


def _added_up(counts: Counter[str]) -> str:
    return " + ".join(f"{counts[state]:,}" for state in STATES) + f" = {counts.total():,}"
