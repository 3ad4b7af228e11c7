"""A quality tile: the quality of one minute's predictions as a row of integers, which merge by addition."""

from bisect import bisect_left
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
import orjson
from numpy.typing import NDArray

from headrace.declare.models.labels import Task
from headrace.declare.models.metrics import Segment
from headrace.declare.models.model import Model
from headrace.monitoring.quality.bins import CALIBRATION_BINS, DELAY_BINS, SCORE_BINS
from headrace.monitoring.quality.fixed_point_sums import LARGE_PIECES, SMALL_PIECES

STATES = ("pending", "matched", "defaulted", "expired", "orphan")
CONFUSION_COUNTS = ("true_positive", "false_positive", "true_negative", "false_negative", "reached")

_COMMON_SIZES = {
    "n": 1,  # the number of changes: of two tiles of one key the one with more is the newer
    "states": len(STATES),
    "corrections": 1,
    "unusable": 4,  # missing scores, scores below 0 or above 1; outcomes that cannot be compared
    "delays": DELAY_BINS,
}
_TASK_SIZES: dict[Task, dict[str, int]] = {
    "classification": {
        "scores": SCORE_BINS,  # of all predictions, labelled or not
        "places": SCORE_BINS,  # the sum of positions within the bin: 0 at the lower edge, 2³⁰ at the upper
        "labels": 2,
        "negatives": SCORE_BINS,
        "positives": SCORE_BINS,
        "calibration": CALIBRATION_BINS * SMALL_PIECES,  # sums of the scores that have a label
        "log_loss": SMALL_PIECES,
        "brier": SMALL_PIECES,
    },
    "regression": {"compared": 1, "over": LARGE_PIECES, "under": LARGE_PIECES, "squared": LARGE_PIECES},
}


@dataclass(frozen=True)
class QualityLayout:
    """The meaning of a tile's integers, for a task and the thresholds of a model."""

    task: Task
    thresholds: tuple[float, ...]

    @cached_property
    def slices(self) -> dict[str, slice]:
        """The slice of each partial; thresholds come last."""
        sizes = _COMMON_SIZES | _TASK_SIZES[self.task] | {"confusion": len(self.thresholds) * len(CONFUSION_COUNTS)}
        ends = np.cumsum(list(sizes.values())).tolist()
        return {name: slice(end - size, end) for (name, size), end in zip(sizes.items(), ends, strict=True)}

    @cached_property
    def width(self) -> int:
        return int(self.slices["confusion"].stop)

    def start_index(self, name: str) -> int:
        """The first index of a partial."""
        return int(self.slices[name].start)

    def confusion_slice(self, threshold: float) -> slice:
        """The slice of the counts at a threshold."""
        start = self.start_index("confusion") + self.thresholds.index(threshold) * len(CONFUSION_COUNTS)
        return slice(start, start + len(CONFUSION_COUNTS))


class QualityKey(NamedTuple):
    """The key of a tile: version, role, segment and minute; a label without a prediction has no version and no role."""

    version: str
    role: str
    segment: Segment
    start_us: int


@dataclass(frozen=True, eq=False)
class QualityTile:
    """The integers of one tile, or of a merged window."""

    layout: QualityLayout
    integers: NDArray[np.int64]

    def __getitem__(self, name: str) -> NDArray[np.int64]:
        return self.integers[self.layout.slices[name]]

    @property
    def n(self) -> int:
        return int(self["n"][0])

    @property
    def states(self) -> dict[str, int]:
        """How many ids are in each state; the sum is all ids seen."""
        return dict(zip(STATES, self["states"].tolist(), strict=True))


def create_layout(model: Model) -> QualityLayout:
    """The layout of a model's tiles; raises for a model without labels."""
    if model.labels is None:
        raise ValueError(f"Model {model.name!r} has no labels. Write labels=hr.Labels(…): quality is counted by them.")
    return QualityLayout(model.labels.task, tuple(threshold for _, threshold in model.thresholds))


def merge_tiles(layout: QualityLayout, tiles: Iterable[QualityTile]) -> QualityTile:
    """Merge tiles: of minutes into a window, of segments into the whole, of changes into the current tile."""
    total = np.zeros(layout.width, dtype=np.int64)
    for tile in tiles:
        total += tile.integers
    return QualityTile(layout, total)


def encode_key(key: QualityKey) -> bytes:
    """The key of a tile in MODEL.quality."""
    return orjson.dumps({"v": key.version, "r": key.role, "s": dict(key.segment), "t": key.start_us})


def decode_key(key: bytes) -> QualityKey:
    """Decode what `encode_key` wrote."""
    decoded = orjson.loads(key)
    return QualityKey(decoded["v"], decoded["r"], tuple(sorted(decoded["s"].items())), decoded["t"])


def encode_tile(tile: QualityTile) -> bytes:
    """Encode a tile sparsely: for each partial the non-zero values and their indexes; for each threshold its counts."""
    layout = tile.layout
    counts_by_threshold = {
        repr(threshold): tile.integers[layout.confusion_slice(threshold)].tolist() for threshold in layout.thresholds
    }
    return orjson.dumps({"n": tile.n, "task": layout.task, "at": counts_by_threshold} | dict(_sparse_partials(tile)))


def decode_tile(layout: QualityLayout, value: bytes) -> QualityTile:
    """Decode a tile in the reader's layout: unknown thresholds are left out, missing ones are 0."""
    decoded = orjson.loads(value)
    if decoded["task"] != layout.task:
        raise ValueError(f"a tile of a {decoded['task']}, and the labels now make it a {layout.task}")
    integers = np.zeros(layout.width, dtype=np.int64)
    integers[layout.start_index("n")] = decoded["n"]
    # Most tiles have a few values at a few indexes: set at once.
    positions, amounts = list[int](), list[int]()
    for name in decoded.keys() & layout.slices.keys() - {"n"}:
        start = layout.start_index(name)
        positions += [start + position for position in decoded[name][0]]
        amounts += decoded[name][1]
    integers[positions] = amounts
    _read_confusion(layout, integers, decoded["at"])
    return QualityTile(layout, integers)


def _sparse_partials(tile: QualityTile) -> Iterator[tuple[str, tuple[list[int], list[int]]]]:
    """For each non-empty partial, its non-zero indexes and values; found in one pass over the tile."""
    nonzero = np.flatnonzero(tile.integers)
    positions, amounts = nonzero.tolist(), tile.integers[nonzero].tolist()
    for name, partial_slice in tile.layout.slices.items():
        begin, end = bisect_left(positions, partial_slice.start), bisect_left(positions, partial_slice.stop)
        if begin < end and name not in {"n", "confusion"}:
            yield name, ([position - partial_slice.start for position in positions[begin:end]], amounts[begin:end])


def _read_confusion(layout: QualityLayout, integers: NDArray[np.int64], counts_by_threshold: Mapping[str, Any]) -> None:
    for threshold in layout.thresholds:
        if (counts := counts_by_threshold.get(repr(threshold))) is not None:
            integers[layout.confusion_slice(threshold)] = counts
