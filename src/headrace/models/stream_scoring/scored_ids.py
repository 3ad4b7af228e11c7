"""Recently scored ids: clean events may be repeated, and each is scored once."""

from collections.abc import Iterable

import orjson

from headrace.declare.models.model import Model
from headrace.kafka.consumers.last_records import LastRecordsReader
from headrace.online_store.bounded_cache import BoundedCache

MAX_SCORED_IDS = 100_000


class ScoredIds:
    """The last ids that a model has scored in its stream, by any member of the group; bounded."""

    def __init__(self, broker: str, model: Model, max_ids: int = MAX_SCORED_IDS) -> None:
        self._tail = LastRecordsReader(broker, model.predictions, max_ids)
        self._ids: BoundedCache[str, None] = BoundedCache(max_ids)

    def load_recent(self) -> None:
        """Load the ids that other scorers, or this one before a restart, have scored meanwhile."""
        for record in self._tail.read_new_records():
            if orjson.loads(record.value or b"{}").get("source") == "stream":
                self._ids[(record.key or b"").decode()] = None

    def add(self, event_id: str) -> bool:
        """Add an id; False where it is known already."""
        if event_id in self._ids:
            return False
        self._ids[event_id] = None
        return True

    def forget(self, event_ids: Iterable[str]) -> None:
        """Remove ids that were not scored after all."""
        for event_id in event_ids:
            self._ids.pop(event_id, None)
