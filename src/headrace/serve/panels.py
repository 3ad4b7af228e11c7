"""GET /panels: the latest answer of each saved query, asked anew when it is due, and while somebody looks.

/live looks once a second ──▶ what is due is asked ──▶ an answer, told to all who listen as `event: panel`
"""

import asyncio
import time
from collections.abc import Sequence

import orjson

from headrace.declare.durations import UNITS_US
from headrace.declare.query import Query
from headrace.serve.answers import Answer, Refused
from headrace.serve.http import Request
from headrace.serve.live import NOT_KEPT
from headrace.serve.sql import Queries
from headrace.store.reads import StoreUnavailable

MOST_ROWS, MOST_BYTES = 100, 64 << 10


class Panel:
    """One saved query, what it last answered, and the task that asks it now."""

    def __init__(self, query: Query, queries: Queries) -> None:
        self._query, self._queries = query, queries
        self._asking: asyncio.Task[bytes] | None = None
        self._due_at = 0.0
        self.said = b""

    def look(self) -> "asyncio.Task[bytes]":
        """Ask if it is due; gives the task of the latest answer."""
        is_over = self._asking is None or self._asking.done()
        if self._asking is None or (is_over and time.monotonic() >= self._due_at):
            self._due_at = time.monotonic() + self._query.every_us / UNITS_US["s"]
            self._asking = asyncio.create_task(self._ask())
        return self._asking

    async def _ask(self) -> bytes:
        at_ms = time.time_ns() // 1_000_000
        try:
            answer, error = await self._queries.ask(self._query.sql, MOST_ROWS, MOST_BYTES), None
        except (Refused, StoreUnavailable) as problem:
            answer, error = b"null", str(problem)
        told = {"name": self._query.name, "sql": self._query.sql, "at": at_ms, "error": error}
        self.said = b'%b,"answer":%b}' % (orjson.dumps(told)[:-1], answer)
        return self.said


class Panels:
    """The panels of an app."""

    def __init__(self, queries: Sequence[Query], asked: Queries) -> None:
        self._panels = [Panel(query, asked) for query in queries]
        self._told = [b""] * len(self._panels)

    async def __call__(self, _request: Request) -> Answer:
        """Every panel; who is due is asked first."""
        said = await asyncio.gather(*(asyncio.shield(panel.look()) for panel in self._panels))
        return Answer(200, b'{"panels":[%b]}' % b",".join(said), headers=NOT_KEPT)

    def news(self) -> bytes:
        """What was answered since the last look, as server-sent events; whoever is due is asked."""
        for panel in self._panels:
            panel.look()
        told, self._told = self._told, [panel.said for panel in self._panels]
        return b"".join(
            b"event: panel\ndata: %b\n\n" % now
            for before, now in zip(told, self._told, strict=True)
            if before is not now
        )
