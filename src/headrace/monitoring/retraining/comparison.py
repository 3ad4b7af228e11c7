"""Compares a new version with the champion on events that neither was fitted on, overall and by segment."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from headrace.declare.models.retraining import LOWER_IS_BETTER, Retrain
from headrace.models.training.estimator_fit import compute_metrics

MIN_SEGMENT_ROWS = 200  # rows; with fewer a difference is not significant
MAX_SEGMENT_VALUES = 20  # the most frequent values of a segment's column

Scores = NDArray[np.float64]


@dataclass(frozen=True)
class ComparisonData:
    """The labels, the scores of both, and the segment columns."""

    kind: str
    label: NDArray[Any]
    champion: Scores
    challenger: Scores
    segments: Mapping[str, NDArray[Any]]

    def measure_both(self, rows: NDArray[np.bool_] | slice, metric: str) -> tuple[float | None, float | None]:
        """The metrics of both on some rows; None where they are undefined."""
        return (
            compute_metrics(self.kind, self.label[rows], self.champion[rows]).get(metric),
            compute_metrics(self.kind, self.label[rows], self.challenger[rows]).get(metric),
        )


@dataclass(frozen=True)
class PromotionDecision:
    """Whether the new version is promoted, why, and the metrics: the champion's first, then its own."""

    promoted: bool
    reason: str
    by: str = ""
    champion: float | None = None
    challenger: float | None = None
    rows: int = 0
    segments: tuple[dict[str, Any], ...] = ()

    def to_card_fields(self) -> dict[str, Any]:
        """The decision as fields of a card."""
        return {**asdict(self), "segments": list(self.segments)}


def decide_promotion(comparison: ComparisonData, rules: Retrain) -> PromotionDecision:
    """Whether the challenger is better by the required margin overall, and not worse than allowed in any segment."""
    champion, challenger = comparison.measure_both(slice(None), rules.by)
    segments = tuple(_compare_segments(comparison, rules))
    promoted, reason = _decide(champion, challenger, segments, rules)
    if len(comparison.label) < rules.at_least:
        problem = f"{len(comparison.label)} latest labelled events are too few to tell"
        promoted, reason = False, f"{problem}: at_least={rules.at_least}"
    return PromotionDecision(promoted, reason, rules.by, champion, challenger, len(comparison.label), segments)


def _decide(
    champion: float | None, challenger: float | None, segments: tuple[dict[str, Any], ...], rules: Retrain
) -> tuple[bool, str]:
    if champion is None or challenger is None:
        return (
            False,
            f"{rules.by} is undefined for the latest labelled events: they are all of one class, or of another kind",
        )
    summary = f"{rules.by} {challenger:.4f}, the champion's {champion:.4f}"
    if _gain(champion, challenger, rules) < rules.better_by:
        return False, f"{summary}: not better by {rules.better_by:g}"
    worst = min(segments, key=lambda segment: segment["gain"], default=None)
    if worst is not None and worst["gain"] < -rules.worse_by:
        return False, f"{summary}, but where {worst['segment']} it is worse by {-worst['gain']:.4f}"
    return True, f"{summary}: better by {_gain(champion, challenger, rules):.4f}"


def _gain(champion: float, challenger: float, rules: Retrain) -> float:
    return champion - challenger if rules.by in LOWER_IS_BETTER else challenger - champion


def _compare_segments(comparison: ComparisonData, rules: Retrain) -> list[dict[str, Any]]:
    segments = []
    for name, values in comparison.segments.items():
        distinct_values, counts = np.unique(values.astype(str), return_counts=True)
        for index in np.argsort(-counts, kind="stable")[:MAX_SEGMENT_VALUES]:
            champion, challenger = comparison.measure_both(values.astype(str) == distinct_values[index], rules.by)
            if counts[index] < MIN_SEGMENT_ROWS or champion is None or challenger is None:
                continue
            segments.append(
                {
                    "segment": f"{name} = {distinct_values[index]}",
                    "rows": int(counts[index]),
                    "champion": champion,
                    "challenger": challenger,
                    "gain": _gain(champion, challenger, rules),
                }
            )
    return segments
