"""Which column to look at first: by how far it drifted, how much the model leans on it, and in which segment."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from headrace.evaluate.drift.examine import Examined, Finding
from headrace.score.card import Card
from headrace.score.reference import Segment

SCORE = "score"  # what a card calls the distribution of scores


@dataclass(frozen=True)
class Drifted:
    """A column that drifted in a segment (none is the whole): how far, in PSI's measure, how important, by what."""

    segment: tuple[Segment, ...]
    column: str
    distance: float
    importance: float
    findings: tuple[Finding, ...]

    @property
    def weight(self) -> float:
        """What columns are ranked by: 1 is the drift of a column that matters as much as any other."""
        return self.distance * self.importance

    @property
    def strongest(self) -> Finding:
        """The test that tells most."""
        return max(self.findings, key=lambda one: one.multiple)

    @property
    def is_score(self) -> bool:
        """Whether it is what the model said, and no input of it."""
        return self.column == SCORE


def ranked(examined: Mapping[tuple[Segment, ...], Examined], importance: Mapping[str, float]) -> list[Drifted]:
    """What drifted, the heaviest first; `importance` has 1 for a column that matters as much as any other."""
    found = [one for segment, of in examined.items() for one in _drifted(segment, of, importance)]
    return sorted(found, key=lambda one: (-one.weight, one.segment, one.column))


def importance_of(card: Card) -> dict[str, float]:
    """How much each input matters, 1 on average; the same for all where the estimator does not say."""
    given = {one["name"]: one.get("importance") for one in card.features}
    known = {name: float(value) for name, value in given.items() if isinstance(value, int | float)}
    total = sum(known.values())
    if len(known) < len(given) or not total > 0:
        return dict.fromkeys(given, 1.0)
    return {name: value * len(known) / total for name, value in known.items()}


def _drifted(segment: tuple[Segment, ...], examined: Examined, importance: Mapping[str, float]) -> Iterator[Drifted]:
    by_column: dict[str, list[Finding]] = {}
    for one in examined.findings():
        if one.drifted:
            by_column.setdefault(one.column, []).append(one)
    for column, findings in by_column.items():
        distance = float(examined.distance[examined.columns.index(column)])
        yield Drifted(segment, column, distance, importance.get(column, 1.0), tuple(findings))
