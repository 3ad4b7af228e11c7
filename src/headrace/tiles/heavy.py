"""The heaviest keys of late: a frequent-items sketch for each half of a window, the older one let go of in time.

    log time   ├─ let go of ─┼── previous half ──┼── current half ─ now
                             └────────── told together ───────────┘

A sketch of datasketches keeps as many keys as its map has room for, whatever there are. A key's count lies between two
bounds, which are the same while the keys have room, and beyond that at most 3.5 / 4096 of all events apart.
"""

from collections.abc import Iterable, Mapping
from threading import Lock
from typing import NamedTuple

from datasketches import frequent_items_error_type, frequent_strings_sketch

from headrace.declare.durations import UNITS_US
from headrace.tiles.frequent import LONGEST_TEXT

HALF_US = 5 * UNITS_US["m"]
LG_MAP = 12
LEAST_SHARE = 0.001  # a key below it is nobody's trouble


class HeavyKey(NamedTuple):
    """A key, and bounds of how many events it had."""

    key: str
    at_least: int
    at_most: int


class Heaviest(NamedTuple):
    """The heaviest keys, the heaviest first; how many events there were of all keys, and in how long a time."""

    keys: tuple[HeavyKey, ...]
    events: int
    seconds: float


class RecentKeys:
    """Counts keys by the log's time; one thread counts, any thread asks."""

    def __init__(self) -> None:
        self._halves: dict[int, frequent_strings_sketch] = {}
        self._first_us: int | None = None
        self._whole = Lock()

    def add(self, counts: Mapping[str, int], at_us: int) -> None:
        """So many events of each key, all in the half of a time; a half that is over is not begun again."""
        half = at_us // HALF_US
        with self._whole:
            self._first_us = at_us if self._first_us is None else min(at_us, self._first_us)
            newest = max(self._halves, default=half)
            if half < newest - 1:
                return
            self._halves = {one: sketch for one, sketch in self._halves.items() if one >= half - 1}
            sketch = self._halves.setdefault(half, frequent_strings_sketch(LG_MAP))
            for key, count in counts.items():
                sketch.update(key[:LONGEST_TEXT], count)

    def merge_into(self, whole: frequent_strings_sketch, now_us: int) -> int:
        """Add what is recent to a sketch; gives the time from which on this has counted."""
        begin = now_us // HALF_US - 1
        with self._whole:
            for half, sketch in self._halves.items():
                if half >= begin:
                    whole.merge(sketch)
            return max(begin * HALF_US, now_us if self._first_us is None else self._first_us)


def heaviest(counted: Iterable[RecentKeys], now_us: int, most: int) -> Heaviest:
    """The heaviest keys of several counts together."""
    whole = frequent_strings_sketch(LG_MAP)
    since_us = min((one.merge_into(whole, now_us) for one in counted), default=now_us)
    least = int(LEAST_SHARE * whole.total_weight)
    found = whole.get_frequent_items(frequent_items_error_type.NO_FALSE_NEGATIVES, least)
    ordered = sorted((HeavyKey(key, low, high) for key, _, low, high in found), key=lambda one: (-one.at_most, one.key))
    return Heaviest(tuple(ordered[:most]), int(whole.total_weight), max(0, now_us - since_us) / 1e6)
