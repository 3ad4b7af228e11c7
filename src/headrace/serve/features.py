"""POST /features/VIEW: the values of some entities' features, now or at a time."""

from math import isfinite
from time import monotonic
from typing import Any

from headrace.declare.schema import Kind
from headrace.declare.views import View
from headrace.serve.answers import Answer, BadRequest, encode_json, not_finite
from headrace.serve.clock import Clock
from headrace.serve.feature_request import read_request
from headrace.serve.http import Request
from headrace.serve.keys import KeyReader
from headrace.serve.served import ServedLog
from headrace.store.online import Online
from headrace.store.reads import Read, TooLongAgo
from headrace.tiles.derive import Deriver
from headrace.tiles.finish import moment
from headrace.tiles.frequent import key_text
from headrace.tiles.tile import Entity


class Features:
    """Answers for one view."""

    def __init__(self, view: View, online: Online, served: ServedLog | None = None) -> None:
        kinds = {column.name: column.kind for column in view.outputs} | {one.name: one.kind for one in view.derived}
        self._view, self._online, self._served = view, online, served
        self._names = view.names
        self._keys = KeyReader(view)
        self._deriver = Deriver(view)
        self._clock = Clock()
        self._floats = [index for index, name in enumerate(view.names) if kinds.get(name) is Kind.DOUBLE]
        self._maps = [index for index, feature in enumerate(view.features) if feature.aggregate.gives_a_map]

    async def __call__(self, request: Request) -> Answer:
        """The answer to one request."""
        asked = read_request(request.body)
        entities = self._keys.entities(asked.keys)
        try:
            reads = await self._online.read(self._view.name, entities, asked.at_us)
        except TooLongAgo as problem:
            raise BadRequest(str(problem)) from problem
        fields = self._keys.request(asked.request) if self._view.requested else {}
        rows = [self._row(entity, read, asked.at_us, fields) for entity, read in zip(entities, reads, strict=True)]
        if self._served is not None and rows and monotonic() >= self._served.due_at:
            self._served.note(entities[0], reads[0], rows[0], asked.at_us, fields)
        return Answer(200, b'{"as_of":"%b","rows":[%b]}' % (self._clock.iso(asked.at_us), b",".join(rows)))

    def _row(self, entity: Entity, read: Read, at_us: int, request: dict[str, Any]) -> bytes:
        written = read.written or self._written(entity, read, request)
        if read.event_time_us is None:
            return b'%b,"age_ms":null}' % written
        return b'%b,"age_ms":%d}' % (written, (at_us - read.event_time_us) // 1000)

    def _written(self, entity: Entity, read: Read, request: dict[str, Any]) -> bytes:
        """A row in JSON, but for its age and what comes after it."""
        row = self._keys.named(entity)
        (derived,) = self._deriver.rows([read.values], [request], [entity])
        row["values"] = dict(zip(self._names, self._in_json([*read.values, *derived]), strict=True))
        row["event_time"] = None if read.event_time_us is None else moment(read.event_time_us)
        written = encode_json(row).removesuffix(b"}")
        if not self._view.requested and not self._view.joined:
            read.written = written
        return written

    def _in_json(self, values: list[Any]) -> list[Any]:
        """The values as JSON can hold them: floats that are not finite, and the keys of maps, are text."""
        for index in self._floats:
            value = values[index]
            if value is not None and not isfinite(value):
                values[index] = not_finite(value)
        for index in self._maps:
            values[index] = {key_text(key): count for key, count in values[index].items()}
        return values
