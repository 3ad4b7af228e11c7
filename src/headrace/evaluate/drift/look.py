"""One look at a window: how far each column is from what its version was trained on, and which to look at first."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from headrace.declare.drift import Drift
from headrace.evaluate.drift.examine import Examined, Policy, examine
from headrace.evaluate.drift.layout import WHOLE, Layout
from headrace.evaluate.drift.ranking import Drifted, ranked
from headrace.evaluate.drift.window import Rows
from headrace.score.reference import Segment


@dataclass(frozen=True)
class Look:
    """What a window says: its rows, what drifted with the heaviest first, and of each column its greatest multiple of
    any segment and the statistics of the whole; a column that cannot be judged has no multiple.
    """

    rows: int
    multiples: Mapping[str, float]
    statistics: Mapping[str, Mapping[str, float]]
    drifted: tuple[Drifted, ...]

    @property
    def multiple(self) -> float | None:
        """The greatest of all columns, above 1 where anything drifted; None where nothing can be judged."""
        return max(self.multiples.values(), default=None)


def policy_of(drift: Drift) -> Policy:
    """When a declared drift tells."""
    return Policy(
        alarms_a_day=drift.alarms_a_day,
        least_rows=drift.least_rows,
        least_psi=drift.least_psi,
        least_ks=drift.least_ks,
        least_share=drift.least_share,
    )


def look_at(layout: Layout, window: Rows, policy: Policy, importance: Mapping[str, float]) -> Look:
    """The segments of a window beside those of a reference; all of them share the day's false alarms."""
    examined = {
        segment: examine(layout, layout.segments[segment], tile.counts, policy, len(layout.segments))
        for segment, tile in window.items()
    }
    return Look(
        rows=window[WHOLE].n if WHOLE in window else 0,
        multiples=_multiples(layout, examined),
        statistics=_statistics(examined),
        drifted=tuple(ranked(examined, importance)),
    )


def _multiples(layout: Layout, examined: Mapping[tuple[Segment, ...], Examined]) -> dict[str, float]:
    if not examined:
        return {}
    greatest = np.fmax.reduce([one.multiple for one in examined.values()])
    return {name: float(value) for name, value in zip(layout.names, greatest, strict=True) if not np.isnan(value)}


def _statistics(examined: Mapping[tuple[Segment, ...], Examined]) -> dict[str, dict[str, float]]:
    found: dict[str, dict[str, float]] = {}
    for one in examined[WHOLE].findings() if WHOLE in examined else ():
        found.setdefault(one.column, {})[one.test] = one.statistic
    return found


def row_of(drifted: Drifted, window: Rows) -> dict[str, Any]:
    """What drifted as a row of a table, by its test that tells most, with a sample of texts never seen."""
    strongest = drifted.strongest
    return {
        "column": drifted.column,
        "segment": dict(drifted.segment),
        "test": strongest.test,
        "statistic": strongest.statistic,
        "critical": None if np.isnan(strongest.critical) else strongest.critical,
        "multiple": strongest.multiple,
        "effect": drifted.distance,
        "importance": drifted.importance,
        "weight": drifted.weight,
        "tests": [one.test for one in drifted.findings],
        "new": dict(window[drifted.segment].new.get(drifted.column, {})),
    }
