"""Which keys of a bucket to look at when: a timer for each time, and with it the keys that asked for it.

due:   10:05:00 ──▶ c1, c7          10:05:30 ──▶ c2
"""

from collections.abc import Iterable

import orjson
from pyspark.sql.streaming.stateful_processor import StatefulProcessorHandle


class KeyTimers:
    """Times noted in Spark's state, whose watermark is the clock; keys are looked at some at a time."""

    def __init__(self, handle: StatefulProcessorHandle) -> None:
        self._handle = handle
        self._keys_by_time = handle.getMapState("due", "at_us bigint", "ids binary")

    def register(self, at_us: int, keys: Iterable[str]) -> None:
        """Look at these keys again once the clock has passed a time."""
        stored_keys = self._keys_by_time.getValue((at_us,))
        all_keys = dict.fromkeys([*(orjson.loads(stored_keys[0]) if stored_keys else []), *keys])
        self._keys_by_time.updateValue((at_us,), (orjson.dumps(list(all_keys)),))
        if stored_keys is None:
            self._handle.registerTimer(at_us // 1000)

    def pop_keys(self, at_us: int) -> list[str]:
        """The keys that were noted for a time, and no longer are."""
        stored_keys = self._keys_by_time.getValue((at_us,))
        if stored_keys is None:
            return []
        self._keys_by_time.removeKey((at_us,))
        return list(orjson.loads(stored_keys[0]))
