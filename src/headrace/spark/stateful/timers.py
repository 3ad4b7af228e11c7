"""The timers of a bucket's keys: one Spark timer for each time, and the keys that registered for it.

due:   10:05:00 ──▶ c1, c7          10:05:30 ──▶ c2
"""

from collections.abc import Iterable

import orjson
from pyspark.sql.streaming.stateful_processor import StatefulProcessorHandle


class KeyTimers:
    """Timers in Spark's state, whose watermark is the clock; a limited number of keys fires at a time."""

    def __init__(self, handle: StatefulProcessorHandle) -> None:
        self._handle = handle
        self._keys_by_time = handle.getMapState("due", "at_us bigint", "ids binary")

    def register(self, at_us: int, keys: Iterable[str]) -> None:
        """Register keys for a time: they fire once the clock has passed it."""
        stored_keys = self._keys_by_time.getValue((at_us,))
        all_keys = dict.fromkeys([*(orjson.loads(stored_keys[0]) if stored_keys else []), *keys])
        self._keys_by_time.updateValue((at_us,), (orjson.dumps(list(all_keys)),))
        if stored_keys is None:
            self._handle.registerTimer(at_us // 1000)

    def pop_keys(self, at_us: int) -> list[str]:
        """Remove and return the keys that are registered for a time."""
        stored_keys = self._keys_by_time.getValue((at_us,))
        if stored_keys is None:
            return []
        self._keys_by_time.removeKey((at_us,))
        return list(orjson.loads(stored_keys[0]))
