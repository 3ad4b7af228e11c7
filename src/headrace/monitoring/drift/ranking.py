"""Which column to look at first: by how far it drifted, how much the model leans on it, and in which segment."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from headrace.models.versions.model_card import ModelCard
from headrace.models.versions.reference_distribution import Segment
from headrace.monitoring.drift.drift_tests import DriftFinding, DriftTestReport

SCORE_COLUMN = "score"  # what a card calls the distribution of scores


@dataclass(frozen=True)
class DriftedColumn:
    """A column that drifted in a segment (none is the whole): how far, in PSI's measure, how important, by what."""

    segment: tuple[Segment, ...]
    column: str
    distance: float
    importance: float
    findings: tuple[DriftFinding, ...]

    @property
    def weight(self) -> float:
        """What columns are ranked by: 1 is the drift of a column that matters as much as any other."""
        return self.distance * self.importance

    @property
    def strongest(self) -> DriftFinding:
        """The test that tells most."""
        return max(self.findings, key=lambda finding: finding.multiple)

    @property
    def is_score(self) -> bool:
        """Whether it is what the model said, and no input of it."""
        return self.column == SCORE_COLUMN


def rank_drifted(
    reports: Mapping[tuple[Segment, ...], DriftTestReport], importance: Mapping[str, float]
) -> list[DriftedColumn]:
    """What drifted, the heaviest first; `importance` has 1 for a column that matters as much as any other."""
    drifted = [
        drifted_column
        for segment, report in reports.items()
        for drifted_column in _drifted_columns(segment, report, importance)
    ]
    return sorted(drifted, key=lambda one: (-one.weight, one.segment, one.column))


def feature_importance(card: ModelCard) -> dict[str, float]:
    """How much each input matters, 1 on average; the same for all where the estimator does not say."""
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
