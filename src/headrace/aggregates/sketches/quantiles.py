"""Quantiles from KLL sketches of doubles: deterministic merges by weight, read from their bytes.

A serialized sketch of datasketches begins with 2 (none or one item) or 5:

    2, version 1                                    │ nothing
    2, version 2, 6 more bytes of header            │ the item
    5, 7 more bytes │ n: 8 │ min k: 2 │ levels: 1, 1 │ where each level begins: uint32 each │ least │ greatest │ items

An item of level i represents 2 to the i values. A union object would compact them again at random, so two reads could
give different results.
"""

import math
from collections.abc import Iterable, Sequence

import numpy as np
from datasketches import kll_doubles_sketch
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

_EMPTY_FLAG = 1
_FLAGS, _ONE_ITEM_VERSION, _LEVELS_AT, _BEGINS_AT = 3, 2, 18, 20


def build_quantile_sketch(values: Iterable[float], k: int) -> bytes:
    """The sketch of values; NaN is ignored."""
    sketch = kll_doubles_sketch(k)
    for value in values:
        sketch.update(float(value))
    return bytes(sketch.serialize())


def estimate_quantile(sketches: Sequence[bytes], share: float) -> float | None:
    """The smallest value that at least this share of all values do not exceed; None without values."""
    non_empty = [sketch for sketch in sketches if not sketch[_FLAGS] & _EMPTY_FLAG]
    if not non_empty:
        return None
    if share in {0, 1}:
        extremes = [_read_extremes(sketch) for sketch in non_empty]
        return min(low for low, _ in extremes) if share == 0 else max(high for _, high in extremes)
    parts = [_read_items(sketch) for sketch in non_empty]
    items, weights = (np.concatenate(column) for column in zip(*parts, strict=True))
    order = np.argsort(items, kind="stable")
    cumulative_weights = np.cumsum(weights[order])
    target_weight = max(1, math.ceil(share * int(cumulative_weights[-1])))
    return float(items[order][np.searchsorted(cumulative_weights, target_weight)])


def _read_items(sketch: bytes) -> tuple[Floats, Ints]:
    """The items of a sketch and the number of values each represents."""
    if sketch[1] == _ONE_ITEM_VERSION:
        return np.frombuffer(sketch, np.float64, 1, 8), np.ones(1, np.int64)
    levels = sketch[_LEVELS_AT]
    begins = np.frombuffer(sketch, np.uint32, levels, _BEGINS_AT).astype(np.int64)
    items = np.frombuffer(sketch, np.float64, -1, _BEGINS_AT + 4 * levels + 16)
    sizes = np.diff(begins - begins[0], append=len(items))
    return items, np.repeat(1 << np.arange(levels), sizes)


def _read_extremes(sketch: bytes) -> tuple[float, float]:
    if sketch[1] == _ONE_ITEM_VERSION:
        (only,) = np.frombuffer(sketch, np.float64, 1, 8).tolist()
        return only, only
    low, high = np.frombuffer(sketch, np.float64, 2, _BEGINS_AT + 4 * sketch[_LEVELS_AT]).tolist()
    return low, high
