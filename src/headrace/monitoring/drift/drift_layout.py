"""The layout of all columns' counts in one row of counts: that of a reference, of a tile, and of merged tiles.

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

from headrace.models.versions.model_card import ModelCard
from headrace.models.versions.reference_distribution import (
    Bins,
    Counts,
    Numbers,
    ReferenceDistribution,
    Segment,
    parse_references,
)

SegmentCounts = Mapping[tuple[Segment, ...], Counts]
Indices = NDArray[np.intp]

ALL_ROWS: tuple[Segment, ...] = ()
SPECIAL_BINS = 3  # null, NaN, infinite
NUMBER_GROUPS = 10
MIN_GROUP_SHARE = 0.05  # of a group in the reference: 200 rows then expect 10 in it, enough for chi-square


@dataclass(frozen=True)
class DriftColumn:
    """A column: its reference in the card, and the index of its first count."""

    name: str
    reference: ReferenceDistribution
    start: int

    @property
    def bin_count(self) -> int:
        return len(self.reference.bins.counts)

    @property
    def special_start(self) -> int:
        """The index of its null, NaN and infinite counts."""
        return self.start + self.bin_count

    @property
    def end(self) -> int:
        return self.special_start + SPECIAL_BINS

    @property
    def is_numeric(self) -> bool:
        return isinstance(self.reference, Numbers)


class DriftLayout:
    """The columns of one version of a model, and the indexes of their counts."""

    def __init__(self, references: Mapping[str, ReferenceDistribution]) -> None:
        self.columns = tuple(_place_columns(references))
        self.names = tuple(column.name for column in self.columns)
        self.width = self.columns[-1].end if self.columns else 0
        self.reference = self._counts_row([drift_column.reference.bins for drift_column in self.columns])
        self.segments = dict(self._segment_references())
        self.hash = hashlib.sha256(repr([(one.name, one.reference) for one in self.columns]).encode()).hexdigest()[:12]
        self.value_indices = np.concatenate([np.arange(one.start, one.special_start) for one in self.columns])
        self.value_starts = _starts([one.bin_count for one in self.columns])
        self._define_groups()
        self.special_starts = np.array([one.special_start for one in self.columns])
        self.edge_indices = np.array(
            [(one.start if one.is_numeric else one.special_start - 1, one.special_start - 1) for one in self.columns]
        )

    @property
    def is_numeric(self) -> NDArray[np.bool_]:
        """Which columns are numbers."""
        return np.array([column.is_numeric for column in self.columns], np.bool_)

    def _define_groups(self) -> None:
        """Merge neighbouring bins until each group has its share of the reference."""
        starts = [_group_starts(column) for column in self.columns]
        self.group_cuts = np.concatenate(
            [
                np.append(column_starts, one.special_start)
                for column_starts, one in zip(starts, self.columns, strict=True)
            ]
        )
        sizes = [len(cut) for cut in starts]
        self.is_group = np.concatenate([np.append(np.ones(size, np.bool_), False) for size in sizes])
        self.group_starts = _starts(sizes)
        self.degrees_of_freedom = np.array(sizes) - 1

    def group_counts(self, counts: Counts) -> Counts:
        """The counts of each column's groups, side by side."""
        group_counts: Counts = np.add.reduceat(counts, self.group_cuts, axis=-1)[..., self.is_group]
        return group_counts

    def _counts_row(self, bins: Sequence[Bins]) -> Counts:
        parts = [
            count for column_bins in bins for count in (*column_bins.counts, column_bins.nulls, 0, column_bins.infinite)
        ]
        return np.array(parts, np.int64)

    def _segment_references(self) -> Iterator[tuple[tuple[Segment, ...], Counts]]:
        """The reference of each segment, where every column has one."""
        yield ALL_ROWS, self.reference
        first_segments = self.columns[0].reference.segments if self.columns else {}
        for name, values in first_segments.items():
            for value in values:
                bins = [one.reference.segments.get(name, {}).get(value) for one in self.columns]
                known_bins = [one for one in bins if one is not None]
                if len(known_bins) == len(bins):
                    yield ((name, value),), self._counts_row(known_bins)


def create_layout(card: ModelCard) -> DriftLayout:
    """The layout of a version's drift, from its card."""
    return DriftLayout(parse_references(card.reference, f"The card of {card.model!r} version {card.version}"))


def _place_columns(references: Mapping[str, ReferenceDistribution]) -> Iterator[DriftColumn]:
    start = 0
    for name, reference in references.items():
        column = DriftColumn(name, reference, start)
        start = column.end
        yield column


def _starts(sizes: Sequence[int]) -> Indices:
    return np.concatenate([[0], np.cumsum(sizes)[:-1]]).astype(np.intp)


def _group_starts(column: DriftColumn) -> Indices:
    """The first bin of each group: deciles of numbers, frequent texts and the rest."""
    counts = np.array(column.reference.bins.counts, np.int64)
    min_rows = counts.sum() * (1 / NUMBER_GROUPS if column.is_numeric else MIN_GROUP_SHARE)
    starts, group_rows = [0], 0
    for index, count in enumerate(counts.tolist()):
        if group_rows and group_rows >= min_rows:
            starts.append(index)
            group_rows = 0
        group_rows += count
    if len(starts) > 1 and group_rows < counts.sum() * MIN_GROUP_SHARE:
        starts.pop()
    return np.array(starts, np.intp) + column.start
