"""GET /panels: the latest result of each saved query, refreshed when it is due and a client is watching.

/live polls once a second ──▶ due queries run ──▶ a result, sent to every client as `event: panel`
"""

import asyncio
import time
from collections.abc import Sequence

import orjson

from headrace.declare.durations import UNITS_US
from headrace.declare.saved_query import Query
from headrace.online_store.feature_lookup import StoreUnavailable
from headrace.server.http.responses import HttpError, Response
from headrace.server.http.routing import Request
from headrace.server.metrics.live_metrics import NO_STORE_HEADERS
from headrace.server.sql_route import SqlExecutor

MAX_ROWS, MAX_ANSWER_BYTES = 100, 64 << 10


class QueryPanel:
    """One saved query, its latest result, and the task that runs it now."""

    def __init__(self, query: Query, sql_executor: SqlExecutor) -> None:
        self._query, self._sql_executor = query, sql_executor
        self._query_task: asyncio.Task[bytes] | None = None
        self._due_at = 0.0
        self.latest_answer = b""

    def refresh(self) -> "asyncio.Task[bytes]":
        """Run the query if it is due; returns the task of the latest result."""
        is_done = self._query_task is None or self._query_task.done()
        if self._query_task is None or (is_done and time.monotonic() >= self._due_at):
            self._due_at = time.monotonic() + self._query.every_us / UNITS_US["s"]
            self._query_task = asyncio.create_task(self._run_query())
        return self._query_task

    async def _run_query(self) -> bytes:
        at_ms = time.time_ns() // 1_000_000
        try:
            answer, error = await self._sql_executor.run_query(self._query.sql, MAX_ROWS, MAX_ANSWER_BYTES), None
        except (HttpError, StoreUnavailable) as problem:
            answer, error = b"null", str(problem)
        description = {"name": self._query.name, "sql": self._query.sql, "at": at_ms, "error": error}
        self.latest_answer = b'%b,"answer":%b}' % (orjson.dumps(description)[:-1], answer)
        return self.latest_answer


class PanelsHandler:
    """The panels of an app."""

    def __init__(self, queries: Sequence[Query], sql_executor: SqlExecutor) -> None:
        self._panels = [QueryPanel(query, sql_executor) for query in queries]
        self._sent_answers = [b""] * len(self._panels)

    async def __call__(self, _request: Request) -> Response:
        """Every panel; due queries run first."""
        answers = await asyncio.gather(*(asyncio.shield(panel.refresh()) for panel in self._panels))
        return Response(200, b'{"panels":[%b]}' % b",".join(answers), headers=NO_STORE_HEADERS)

    def take_events(self) -> bytes:
        """The results since the last poll, as server-sent events; due queries run."""
        for panel in self._panels:
            panel.refresh()
        sent_answers, self._sent_answers = self._sent_answers, [panel.latest_answer for panel in self._panels]
        return b"".join(
            b"event: panel\ndata: %b\n\n" % latest
            for sent, latest in zip(sent_answers, self._sent_answers, strict=True)
            if sent is not latest
        )
