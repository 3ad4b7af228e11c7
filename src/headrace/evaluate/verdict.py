"""A new version against the champion, on events neither was fitted on: which is better, by how much, and where not."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from headrace.declare.retrain import LOWER_IS_BETTER, Retrain
from headrace.score.fit import measured

SMALLEST_SEGMENT = 200  # rows; of fewer a difference says little
MOST_VALUES = 20  # of a segment's column, the most frequent ones

Scores = NDArray[np.float64]


@dataclass(frozen=True)
class Match:
    """What both are measured on: labels, the scores of each, and the columns whose values are segments."""

    kind: str
    label: NDArray[Any]
    champion: Scores
    challenger: Scores
    segments: Mapping[str, NDArray[Any]]

    def measured(self, rows: NDArray[np.bool_] | slice, by: str) -> tuple[float | None, float | None]:
        """How good both are on some rows; None where those cannot tell."""
        return (
            measured(self.kind, self.label[rows], self.champion[rows]).get(by),
            measured(self.kind, self.label[rows], self.challenger[rows]).get(by),
        )


@dataclass(frozen=True)
class Verdict:
    """Whether the new version takes over, why, and the figures: the champion's first, then its own."""

    promoted: bool
    reason: str
    by: str = ""
    champion: float | None = None
    challenger: float | None = None
    rows: int = 0
    segments: tuple[dict[str, Any], ...] = ()

    def noted(self) -> dict[str, Any]:
        """As a card keeps it."""
        return {**asdict(self), "segments": list(self.segments)}


def judge(match: Match, rules: Retrain) -> Verdict:
    """Whether the challenger is better by the margin on all rows, and not worse by the other in any segment."""
    champion, challenger = match.measured(slice(None), rules.by)
    segments = tuple(_by_segment(match, rules))
    promoted, reason = _decided(champion, challenger, segments, rules)
    if len(match.label) < rules.at_least:
        few = f"{len(match.label)} latest labelled events are too few to tell"
        promoted, reason = False, f"{few}: at_least={rules.at_least}"
    return Verdict(promoted, reason, rules.by, champion, challenger, len(match.label), segments)


def _decided(
    champion: float | None, challenger: float | None, segments: tuple[dict[str, Any], ...], rules: Retrain
) -> tuple[bool, str]:
    if champion is None or challenger is None:
        return (
            False,
            f"{rules.by} cannot be told of the latest labelled events: they are all of one class, or of another kind",
        )
    found = f"{rules.by} {challenger:.4f}, the champion's {champion:.4f}"
    if _gain(champion, challenger, rules) < rules.better_by:
        return False, f"{found}: not better by {rules.better_by:g}"
    worst = min(segments, key=lambda one: one["gain"], default=None)
    if worst is not None and worst["gain"] < -rules.worse_by:
        return False, f"{found}, but where {worst['segment']} it is worse by {-worst['gain']:.4f}"
    return True, f"{found}: better by {_gain(champion, challenger, rules):.4f}"


def _gain(champion: float, challenger: float, rules: Retrain) -> float:
    return champion - challenger if rules.by in LOWER_IS_BETTER else challenger - champion


def _by_segment(match: Match, rules: Retrain) -> list[dict[str, Any]]:
    found = []
    for name, values in match.segments.items():
        there, counts = np.unique(values.astype(str), return_counts=True)
        for place in np.argsort(-counts, kind="stable")[:MOST_VALUES]:
            champion, challenger = match.measured(values.astype(str) == there[place], rules.by)
            if counts[place] < SMALLEST_SEGMENT or champion is None or challenger is None:
                continue
            found.append(
                {
                    "segment": f"{name} = {there[place]}",
                    "rows": int(counts[place]),
                    "champion": champion,
                    "challenger": challenger,
                    "gain": _gain(champion, challenger, rules),
                }
            )
    return found
