"""Where the counts of every column stand in one row of counts: that of a reference, of a tile, of any merge of tiles.

        amount                                     country
counts  │ bin 0 │ … │ bin 101 │ null │ NaN │ Inf │ FR │ … │ not listed │ null │ NaN │ Inf │
values  │ bin 0 │ … │ bin 101 │                  │ FR │ … │ not listed │                       what KS looks at
groups  │ a tenth of the rows │ …                │ FR │ … │ the rest   │                       what the others look at
"""

import hashlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from headrace.score.card import Card
from headrace.score.reference import Bins, Counts, Numbers, Reference, Segment, read_references

Segments = Mapping[tuple[Segment, ...], Counts]
Places = NDArray[np.intp]

WHOLE: tuple[Segment, ...] = ()
APART = 3  # null, NaN, infinite
GROUPS = 10
LEAST_SHARE = 0.05  # of a group in the reference: 200 rows then expect 10 in it, and chi-square's tail holds


@dataclass(frozen=True)
class Column:
    """A column: what it was compared with when it was frozen, and where its counts begin."""

    name: str
    reference: Reference
    begin: int

    @property
    def bins(self) -> int:
        return len(self.reference.bins.counts)

    @property
    def apart(self) -> int:
        """Where its null, NaN and infinite rows are counted."""
        return self.begin + self.bins

    @property
    def end(self) -> int:
        return self.apart + APART

    @property
    def is_number(self) -> bool:
        return isinstance(self.reference, Numbers)


class Layout:
    """The columns of one version of a model, and the places of their counts."""

    def __init__(self, references: Mapping[str, Reference]) -> None:
        self.columns = tuple(_placed(references))
        self.names = tuple(column.name for column in self.columns)
        self.width = self.columns[-1].end if self.columns else 0
        self.reference = self._row([one.reference.bins for one in self.columns])
        self.segments = dict(self._segments())
        self.hash = hashlib.sha256(repr([(one.name, one.reference) for one in self.columns]).encode()).hexdigest()[:12]
        self.values = np.concatenate([np.arange(one.begin, one.apart) for one in self.columns])
        self.value_begins = _begins([one.bins for one in self.columns])
        self._cut_groups()
        self.apart = np.array([one.apart for one in self.columns])
        self.edges = np.array([(one.begin if one.is_number else one.apart - 1, one.apart - 1) for one in self.columns])

    @property
    def is_number(self) -> NDArray[np.bool_]:
        """Which columns are numbers."""
        return np.array([one.is_number for one in self.columns], np.bool_)

    def _cut_groups(self) -> None:
        """Neighbouring bins together, until each group has its share of the reference."""
        begins = [_group_begins(one) for one in self.columns]
        self.cuts = np.concatenate([np.append(cut, one.apart) for cut, one in zip(begins, self.columns, strict=True)])
        sizes = [len(cut) for cut in begins]
        self.is_group = np.concatenate([np.append(np.ones(size, np.bool_), False) for size in sizes])
        self.group_begins = _begins(sizes)
        self.freedom = np.array(sizes) - 1

    def groups(self, counts: Counts) -> Counts:
        """The counts of each column's groups, side by side."""
        found: Counts = np.add.reduceat(counts, self.cuts, axis=-1)[..., self.is_group]
        return found

    def _row(self, bins: Sequence[Bins]) -> Counts:
        parts = [count for one in bins for count in (*one.counts, one.nulls, 0, one.infinite)]
        return np.array(parts, np.int64)

    def _segments(self) -> Iterator[tuple[tuple[Segment, ...], Counts]]:
        """What each segment looked like, where every column says so."""
        yield WHOLE, self.reference
        first = self.columns[0].reference.segments if self.columns else {}
        for name, values in first.items():
            for value in values:
                bins = [one.reference.segments.get(name, {}).get(value) for one in self.columns]
                known = [one for one in bins if one is not None]
                if len(known) == len(bins):
                    yield ((name, value),), self._row(known)


def layout_of(card: Card) -> Layout:
    """The layout of a version's drift, from its card."""
    return Layout(read_references(card.reference, f"The card of {card.model!r} version {card.version}"))


def _placed(references: Mapping[str, Reference]) -> Iterator[Column]:
    begin = 0
    for name, reference in references.items():
        column = Column(name, reference, begin)
        begin = column.end
        yield column


def _begins(sizes: Sequence[int]) -> Places:
    return np.concatenate([[0], np.cumsum(sizes)[:-1]]).astype(np.intp)


def _group_begins(column: Column) -> Places:
    """Where the groups of a column begin: tenths of its numbers, its frequent texts and the rest."""
    counts = np.array(column.reference.bins.counts, np.int64)
    wanted = counts.sum() * (1 / GROUPS if column.is_number else LEAST_SHARE)
    begins, gathered = [0], 0
    for place, count in enumerate(counts.tolist()):
        if gathered and gathered >= wanted:
            begins.append(place)
            gathered = 0
        gathered += count
    if len(begins) > 1 and gathered < counts.sum() * LEAST_SHARE:
        begins.pop()
    return np.array(begins, np.intp) + column.begin
