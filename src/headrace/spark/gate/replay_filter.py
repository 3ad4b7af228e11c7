"""Deduplicates the records that a gate writes again after a crash, by their raw offsets.

    payments.clean-0   … 118 119 120 │ crash │ 116 117 118 119 120 121 …      raw offsets, as the gate writes them
                                               └──── replays ────┘

A gate writes the records of a partition in order, so a record whose raw offset is not above the last one is a replay.
Records of a key always go to the same bucket: each bucket needs only its own last offsets.
"""

from collections.abc import Iterable

import orjson
from pyspark.sql.streaming.stateful_processor import StatefulProcessorHandle

from headrace.operators.operator import InputEvent


class ReplayFilter:
    """Drops replays, by the last raw offset of each input and partition in a bucket."""

    def __init__(self, handle: StatefulProcessorHandle) -> None:
        self._offsets_state = handle.getValueState("seen", "lasts binary")

    def drop_replays(self, events: Iterable[InputEvent]) -> list[InputEvent]:
        """The events that are new to a bucket, each once."""
        stored_offsets = self._offsets_state.get()
        last_offsets: dict[str, int] = orjson.loads(stored_offsets[0]) if stored_offsets is not None else {}
        new_events = {}
        for event in events:
            if event.offset > last_offsets.get(f"{event.input_index}-{event.partition}", -1):
                new_events[event.input_index, event.partition, event.offset] = event
        if new_events:
            for source, partition, offset in new_events:
                partition_key = f"{source}-{partition}"
                last_offsets[partition_key] = max(offset, last_offsets.get(partition_key, -1))
            self._offsets_state.update((orjson.dumps(last_offsets),))
        return list(new_events.values())
