"""Which keys of a bucket to look at when: a timer for each time, and with it the keys that asked for it.

due:   10:05:00 ──▶ c1, c7          10:05:30 ──▶ c2
"""

from collections.abc import Iterable

import orjson
from pyspark.sql.streaming.stateful_processor import StatefulProcessorHandle


class Due:
    """Times noted in Spark's state, whose watermark is the clock; keys are looked at some at a time."""

    def __init__(self, handle: StatefulProcessorHandle) -> None:
        self._handle = handle
        self._noted = handle.getMapState("due", "at_us bigint", "ids binary")

    def note(self, at_us: int, keys: Iterable[str]) -> None:
        """Look at these keys again once the clock has passed a time."""
        noted = self._noted.getValue((at_us,))
        every = dict.fromkeys([*(orjson.loads(noted[0]) if noted else []), *keys])
        self._noted.updateValue((at_us,), (orjson.dumps(list(every)),))
        if noted is None:
            self._handle.registerTimer(at_us // 1000)

    def taken(self, at_us: int) -> list[str]:
        """The keys that were noted for a time, and no longer are."""
        noted = self._noted.getValue((at_us,))
        if noted is None:
            return []
        self._noted.removeKey((at_us,))
        return list(orjson.loads(noted[0]))
