"""A sample of what was served, kept in the log with what it was made of: so that it can be checked."""

from time import monotonic
from typing import Any

import orjson

from headrace.declare.views import View
from headrace.log.produce import Producer
from headrace.store.reads import Read
from headrace.tiles.layout import lives_of
from headrace.tiles.tile import Entity

EVERY_SECONDS = 0.1


class ServedLog:
    """Notes at most ten answers a second of one view."""

    def __init__(self, view: View, producer: Producer) -> None:
        self._view, self._producer = view, producer
        self._versions = [layout.version for layout in lives_of(view)]
        self.due_at = 0.0

    def note(self, entity: Entity, read: Read, row: bytes, at_us: int, request: dict[str, Any]) -> None:
        """Keep an answer."""
        self.due_at = monotonic() + EVERY_SECONDS
        head = {
            "entity": entity,
            "at": at_us,
            "known": [list(hop) for hop in read.known],
            "versions": self._versions,
            "request": request,
        }
        self._producer.send(self._view.served, orjson.dumps(head)[:-1] + b',"row":' + row + b"}")
