"""A sample of served values, logged with their inputs, so that they can be checked."""

from time import monotonic
from typing import Any

import orjson

from headrace.declare.features.view import View
from headrace.kafka.producer.producer import Producer
from headrace.online_store.feature_lookup import LookupResult
from headrace.tiles.layout import live_layouts
from headrace.tiles.tile import Entity

SAMPLE_SECONDS = 0.1


class ServedLogWriter:
    """Logs at most ten responses a second of one view."""

    def __init__(self, view: View, producer: Producer) -> None:
        self._view, self._producer = view, producer
        self._layout_versions = [layout.version for layout in live_layouts(view)]
        self.next_sample_at = 0.0

    def write_sample(self, entity: Entity, read: LookupResult, row: bytes, at_us: int, request: dict[str, Any]) -> None:
        """Log a response."""
        self.next_sample_at = monotonic() + SAMPLE_SECONDS
        fields = {
            "entity": entity,
            "at": at_us,
            "known": [list(hop) for hop in read.provenance],
            "versions": self._layout_versions,
            "request": request,
        }
        self._producer.send(self._view.served, orjson.dumps(fields)[:-1] + b',"row":' + row + b"}")
