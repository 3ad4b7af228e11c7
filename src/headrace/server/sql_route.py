"""POST /sql: a query over the lake and the live tables, run by a separate process.

request ──▶ the live tables it names ──▶ their rows, as /features would return them now ─┐
   └─────────────────────────────────────────────────────────────────────────────────────┴─▶ the process ──▶ JSON

This process only reads features, a few at a time; the cost of a query falls on the other, which has a lower priority.
"""

import asyncio
import re
import time
from collections.abc import AsyncIterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path

from headrace.declare.app import App
from headrace.declare.features.view import View
from headrace.errors import HeadraceError
from headrace.online_store.feature_lookup import RetentionExceededError, StoreUnavailable, TooManyEntitiesError
from headrace.online_store.memory.memory_store_reader import OnlineStoreReader, split_batches
from headrace.server.features.backfill_readiness import BackfillReadiness
from headrace.server.features.entity_keys import KeyReader, short_json
from headrace.server.http.responses import BadRequest, Response, ServiceUnavailable, parse_json
from headrace.server.http.routing import Request
from headrace.sql.errors import SqlRefused
from headrace.sql.live_columns import live_columns
from headrace.sql.worker_client import SqlProcess, SqlProcessFailed
from headrace.sql.worker_messages import LiveRowsMessage, SqlRequest, encode_message
from headrace.tiles.events.on_demand_features import OnDemandEvaluator
from headrace.tiles.finish import to_datetime
from headrace.tiles.tile import Entity

BODY_FIELDS = {"sql", "limit"}
QUERY_SECONDS = 5.0
DEFAULT_ROWS, MAX_ROWS = 1_000, 100_000
MAX_ANSWER_BYTES = 8 << 20
MAX_LIVE_ENTITIES = 20_000
MAX_WAITING_QUERIES = 16
SPACED_DOT = re.compile(r"\s*\.\s*")


class LiveTableReader:
    """The rows of live tables: for every entity with an event in a window now, what /features would return."""

    def __init__(self, app: App, online: OnlineStoreReader, backfill_readiness: BackfillReadiness | None) -> None:
        self._online, self._backfill_readiness = online, backfill_readiness
        self.columns = {view.name: live_columns(view) for view in app.views}
        self._view_readers = [
            (view, _name_pattern(view), OnDemandEvaluator(view), KeyReader(view)) for view in app.views
        ]

    async def read_named_tables(self, sql: str) -> list[bytes]:
        """The rows of the tables that a query may read, as messages: a name in a comment costs only time."""
        at_us, normalized_sql = time.time_ns() // 1000, SPACED_DOT.sub(".", sql.replace('"', ""))
        named_readers = [
            (view, deriver, keys)
            for view, name_pattern, deriver, keys in self._view_readers
            if name_pattern.search(normalized_sql)
        ]
        return [
            encode_message(message)
            for view_reader in named_readers
            async for message in self._read_view(*view_reader, at_us)
        ]

    async def _read_view(
        self, view: View, deriver: OnDemandEvaluator, keys: KeyReader, at_us: int
    ) -> AsyncIterator[LiveRowsMessage]:
        if self._backfill_readiness is not None:
            await self._backfill_readiness.require_ready(view)
        entities = await self._list_entities(view)
        yield LiveRowsMessage(view.name, entities if isinstance(entities, str) else [])
        for batch in split_batches([] if isinstance(entities, str) else entities):
            reads = await self._online.read(view.name, batch, at_us)
            derived = deriver.evaluate_rows([read.values for read in reads], [{}] * len(batch), batch)
            rows = [
                [*keys.entity_to_dict(entity).values(), *read.values, *derived_values, to_datetime(read.event_time_us)]
                for entity, read, derived_values in zip(batch, reads, derived, strict=True)
                if read.event_time_us is not None
            ]
            yield LiveRowsMessage(view.name, rows)
            await asyncio.sleep(0)

    async def _list_entities(self, view: View) -> Sequence[Entity] | str:
        """The entities of a table, or why they cannot be listed: only a query that reads them needs that."""
        try:
            return await self._online.entities(view.name, MAX_LIVE_ENTITIES)
        except (TooManyEntitiesError, StoreUnavailable) as problem:
            return str(problem)


def _name_pattern(view: View) -> re.Pattern[str]:
    """A view's name as a query writes it: after `live.`, or alone."""
    return re.compile(rf"(?:(?<!\w)live\.|(?<![\w.])){re.escape(view.name)}(?!\w)", re.IGNORECASE)


class SqlExecutor:
    """Runs queries in the query process, one after the other, with a bounded queue."""

    def __init__(self, lake: Path | None, live_tables: LiveTableReader) -> None:
        self._live_tables, self._process = live_tables, SqlProcess(lake, live_tables.columns)
        self._thread_pool = ThreadPoolExecutor(1, thread_name_prefix="sql")
        self._lock = asyncio.Lock()
        self._waiting_count = 0

    async def run_query(self, sql: str, max_rows: int, max_bytes: int = MAX_ANSWER_BYTES) -> bytes:
        """The result in JSON."""
        if self._waiting_count >= MAX_WAITING_QUERIES:
            raise ServiceUnavailable(
                f"{MAX_WAITING_QUERIES} queries wait already. Ask again in a while, or for less each time."
            )
        self._waiting_count += 1
        try:
            async with self._lock:
                live_messages = await self._live_tables.read_named_tables(sql)
                sql_request = SqlRequest(sql, max_rows, max_bytes, QUERY_SECONDS)
                return await self._run_in_process(sql_request, live_messages)
        except (SqlRefused, RetentionExceededError) as refusal:
            raise BadRequest(str(refusal)) from refusal
        except SqlProcessFailed as failure:
            raise ServiceUnavailable(str(failure)) from failure
        finally:
            self._waiting_count -= 1

    async def _run_in_process(self, sql_request: SqlRequest, live_messages: list[bytes]) -> bytes:
        """The result of the process; a client that disconnects ends the query, and the next runs once it has ended."""
        answer_future = asyncio.get_running_loop().run_in_executor(
            self._thread_pool, self._process.run_query, sql_request, live_messages
        )
        try:
            return await asyncio.shield(answer_future)
        except asyncio.CancelledError:
            self._process.interrupt()
            with suppress(HeadraceError):
                await answer_future
            raise

    def stop(self) -> None:
        """Stop the process and its current query."""
        self._thread_pool.shutdown(wait=False, cancel_futures=True)
        self._process.stop()


class SqlHandler:
    """Answers POST /sql {"sql": "select …", "limit": 100}."""

    def __init__(self, executor: SqlExecutor) -> None:
        self._executor = executor

    async def __call__(self, request: Request) -> Response:
        return Response(200, await self._executor.run_query(*_parse_sql_body(request.body)))


def _parse_sql_body(body: bytes) -> tuple[str, int]:
    content = parse_json(body, '{"sql": "show tables"}')
    if not isinstance(content, dict) or not content.keys() <= BODY_FIELDS or not isinstance(content.get("sql"), str):
        raise BadRequest(
            f'The body is {short_json(content)}. Write {{"sql": "select …"}}, and "limit": 100 if you like.'
        )
    limit = content.get("limit", DEFAULT_ROWS)
    if type(limit) is not int or not 1 <= limit <= MAX_ROWS:
        raise BadRequest(f'"limit" is {short_json(limit)}. Write a number of rows from 1 to {MAX_ROWS:,}.')
    return content["sql"], limit
