"""Ranks drifted columns: by how far they drifted, by their importance to the model, in each segment."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from headrace.models.versions.model_card import ModelCard
from headrace.models.versions.reference_distribution import Segment
from headrace.monitoring.drift.drift_tests import DriftFinding, DriftTestReport

SCORE_COLUMN = "score"  # the name of the score distribution in a card


@dataclass(frozen=True)
class DriftedColumn:
    """A drifted column of a segment (none is the whole): its distance in PSI's measure, its importance, its tests."""

    segment: tuple[Segment, ...]
    column: str
    distance: float
    importance: float
    findings: tuple[DriftFinding, ...]

    @property
    def weight(self) -> float:
        """The rank of a column: 1 is the drift of a column of average importance."""
        return self.distance * self.importance

    @property
    def strongest(self) -> DriftFinding:
        """The test with the greatest multiple."""
        return max(self.findings, key=lambda finding: finding.multiple)

    @property
    def is_score(self) -> bool:
        """Whether it is the score, not an input."""
        return self.column == SCORE_COLUMN


def rank_drifted(
    reports: Mapping[tuple[Segment, ...], DriftTestReport], importance: Mapping[str, float]
) -> list[DriftedColumn]:
    """The drifted columns, the heaviest first; `importance` is 1 for a column of average importance."""
    drifted = [
        drifted_column
        for segment, report in reports.items()
        for drifted_column in _drifted_columns(segment, report, importance)
    ]
    return sorted(drifted, key=lambda one: (-one.weight, one.segment, one.column))


def feature_importance(card: ModelCard) -> dict[str, float]:
    """The importance of each input, 1 on average; equal for all where the estimator does not provide it."""
    importance_by_name = {feature["name"]: feature.get("importance") for feature in card.features}
    known_importance = {
        name: float(value) for name, value in importance_by_name.items() if isinstance(value, int | float)
    }
    total = sum(known_importance.values())
    if len(known_importance) < len(importance_by_name) or not total > 0:
        return dict.fromkeys(importance_by_name, 1.0)
    return {name: value * len(known_importance) / total for name, value in known_importance.items()}


def _drifted_columns(
    segment: tuple[Segment, ...], report: DriftTestReport, importance: Mapping[str, float]
) -> Iterator[DriftedColumn]:
    findings_by_column: dict[str, list[DriftFinding]] = {}
    for finding in report.findings():
        if finding.drifted:
            findings_by_column.setdefault(finding.column, []).append(finding)
    for column, findings in findings_by_column.items():
        distance = float(report.distance[report.columns.index(column)])
        yield DriftedColumn(segment, column, distance, importance.get(column, 1.0), tuple(findings))
