"""What a gate writes again after a crash, known by its place and passed over.

    payments.clean-0   … 118 119 120 │ crash │ 116 117 118 119 120 121 …      raw offsets, as the gate writes them
                                               └──── replays ────┘

A gate writes the records of a partition in their order, so one whose raw offset is not above the last is a replay.
Records of a key always come to the same bucket: each bucket needs to know no more than its own last offsets.
"""

from collections.abc import Iterable

import orjson
from pyspark.sql.streaming.stateful_processor import StatefulProcessorHandle

from headrace.operators.operator import Arrived


class Seen:
    """The last raw offset of each input and partition that a bucket has had."""

    def __init__(self, handle: StatefulProcessorHandle) -> None:
        self._state = handle.getValueState("seen", "lasts binary")

    def news(self, events: Iterable[Arrived]) -> list[Arrived]:
        """Those that a bucket has not had, each once."""
        known = self._state.get()
        lasts: dict[str, int] = orjson.loads(known[0]) if known is not None else {}
        news = {}
        for event in events:
            if event.offset > lasts.get(f"{event.source}-{event.partition}", -1):
                news[event.source, event.partition, event.offset] = event
        if news:
            for source, partition, offset in news:
                place = f"{source}-{partition}"
                lasts[place] = max(offset, lasts.get(place, -1))
            self._state.update((orjson.dumps(lasts),))
        return list(news.values())
