"""Heavy hitters of the recent past: a frequent-items sketch for each half of a window; the older one is dropped.

    log time   ├── dropped ──┼── previous half ──┼── current half ─ now
                             └──────────── reported ──────────────┘

A sketch of datasketches has a bounded number of keys. A key's count lies between two bounds, which are equal while all
keys fit into the map, and beyond that at most 3.5 / 4096 of all events apart.
"""

from collections.abc import Iterable, Mapping
from threading import Lock
from typing import NamedTuple

from datasketches import frequent_items_error_type, frequent_strings_sketch

from headrace.aggregates.sketches.frequent_items import MAX_TEXT_LENGTH
from headrace.declare.durations import UNITS_US

HALF_WINDOW_US = 5 * UNITS_US["m"]
LG_MAP = 12
MIN_SHARE = 0.001  # a key below this share is not reported


class HeavyKey(NamedTuple):
    """A key, and the bounds of its number of events."""

    key: str
    at_least: int
    at_most: int


class HeavyHitters(NamedTuple):
    """The heaviest keys in descending order; the number of events of all keys, and the time they cover."""

    keys: tuple[HeavyKey, ...]
    events: int
    seconds: float


class RecentKeyCounts:
    """Counts keys by log time; one thread counts, any thread reads."""

    def __init__(self) -> None:
        self._halves: dict[int, frequent_strings_sketch] = {}
        self._first_us: int | None = None
        self._lock = Lock()

    def add_counts(self, counts: Mapping[str, int], at_us: int) -> None:
        """Add counts per key to the half window of a time; a half that is over is not reopened."""
        half = at_us // HALF_WINDOW_US
        with self._lock:
            self._first_us = at_us if self._first_us is None else min(at_us, self._first_us)
            newest = max(self._halves, default=half)
            if half < newest - 1:
                return
            self._halves = {other_half: sketch for other_half, sketch in self._halves.items() if other_half >= half - 1}
            sketch = self._halves.setdefault(half, frequent_strings_sketch(LG_MAP))
            for key, count in counts.items():
                sketch.update(key[:MAX_TEXT_LENGTH], count)

    def merge_into(self, target: frequent_strings_sketch, now_us: int) -> int:
        """Merge the recent counts into a sketch; returns the time since which they are counted."""
        begin = now_us // HALF_WINDOW_US - 1
        with self._lock:
            for half, sketch in self._halves.items():
                if half >= begin:
                    target.merge(sketch)
            return max(begin * HALF_WINDOW_US, now_us if self._first_us is None else self._first_us)


def find_heavy_hitters(key_counts: Iterable[RecentKeyCounts], now_us: int, limit: int) -> HeavyHitters:
    """The heaviest keys of several counters together."""
    merged = frequent_strings_sketch(LG_MAP)
    since_us = min((item.merge_into(merged, now_us) for item in key_counts), default=now_us)
    min_count = int(MIN_SHARE * merged.total_weight)
    items = merged.get_frequent_items(frequent_items_error_type.NO_FALSE_NEGATIVES, min_count)
    heavy_keys = sorted(
        (HeavyKey(key, low, high) for key, _, low, high in items), key=lambda one: (-one.at_most, one.key)
    )
    return HeavyHitters(tuple(heavy_keys[:limit]), int(merged.total_weight), max(0, now_us - since_us) / 1e6)
