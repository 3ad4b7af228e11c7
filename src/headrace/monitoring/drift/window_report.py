"""The drift report of a window: the distance of each column from the training data, ranked."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from headrace.declare.models.drift import Drift
from headrace.models.versions.reference_distribution import Segment
from headrace.monitoring.drift.drift_layout import ALL_ROWS, DriftLayout
from headrace.monitoring.drift.drift_tests import DriftPolicy, DriftTestReport, run_drift_tests
from headrace.monitoring.drift.drift_window import WindowTiles
from headrace.monitoring.drift.ranking import DriftedColumn, rank_drifted


@dataclass(frozen=True)
class DriftWindowReport:
    """The report of a window: its rows, the drifted columns by rank, and for each column its greatest multiple over all
    segments and the statistics of the whole; a column without an applicable test has no multiple.
    """

    rows: int
    multiples: Mapping[str, float]
    statistics: Mapping[str, Mapping[str, float]]
    drifted: tuple[DriftedColumn, ...]

    @property
    def multiple(self) -> float | None:
        """The greatest multiple of all columns, above 1 where anything drifted; None where no test applies."""
        return max(self.multiples.values(), default=None)


def create_policy(drift: Drift) -> DriftPolicy:
    """The policy of a declared drift."""
    return DriftPolicy(
        alarms_a_day=drift.alarms_a_day,
        least_rows=drift.least_rows,
        least_psi=drift.least_psi,
        least_ks=drift.least_ks,
        least_share=drift.least_share,
    )


def create_window_report(
    layout: DriftLayout, window: WindowTiles, policy: DriftPolicy, importance: Mapping[str, float]
) -> DriftWindowReport:
    """Test the segments of a window against those of the reference; all share the day's false-alarm rate."""
    reports = {
        segment: run_drift_tests(layout, layout.segments[segment], tile.counts, policy, len(layout.segments))
        for segment, tile in window.items()
    }
    return DriftWindowReport(
        rows=window[ALL_ROWS].n if ALL_ROWS in window else 0,
        multiples=_multiples(layout, reports),
        statistics=_statistics(reports),
        drifted=tuple(rank_drifted(reports, importance)),
    )


def _multiples(layout: DriftLayout, reports: Mapping[tuple[Segment, ...], DriftTestReport]) -> dict[str, float]:
    if not reports:
        return {}
    greatest = np.fmax.reduce([report.multiple for report in reports.values()])
    return {name: float(value) for name, value in zip(layout.names, greatest, strict=True) if not np.isnan(value)}


def _statistics(reports: Mapping[tuple[Segment, ...], DriftTestReport]) -> dict[str, dict[str, float]]:
    statistics_by_column: dict[str, dict[str, float]] = {}
    for finding in reports[ALL_ROWS].findings() if ALL_ROWS in reports else ():
        statistics_by_column.setdefault(finding.column, {})[finding.test] = finding.statistic
    return statistics_by_column


def to_report_row(drifted: DriftedColumn, window: WindowTiles) -> dict[str, Any]:
    """A drifted column as a table row, with its strongest test and a sample of unseen texts."""
    strongest = drifted.strongest
    return {
        "column": drifted.column,
        "segment": dict(drifted.segment),
        "test": strongest.test,
        "statistic": strongest.statistic,
        "critical": None if np.isnan(strongest.critical_value) else strongest.critical_value,
        "multiple": strongest.multiple,
        "effect": drifted.distance,
        "importance": drifted.importance,
        "weight": drifted.weight,
        "tests": [finding.test for finding in drifted.findings],
        "new": dict(window[drifted.segment].unlisted_texts.get(drifted.column, {})),
    }
