"""POST /sql: a query over the lake and the live tables, answered by a process of its own.

asked ──▶ which live tables it names ──▶ their rows, as /features would give them now ─┐
  └────────────────────────────────────────────────────────────────────────────────────┴─▶ the process ──▶ JSON

This process only reads features, a few at a time; whatever a query costs is paid by the other, which gives way.
"""

import asyncio
import re
import time
from collections.abc import AsyncIterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path

from headrace.declare.app import App
from headrace.declare.views import View
from headrace.errors import HeadraceError
from headrace.serve.answers import Answer, BadRequest, Unavailable, json_of
from headrace.serve.backfilled import Histories
from headrace.serve.http import Request
from headrace.serve.keys import KeyReader, shown
from headrace.sql.columns import live_columns
from headrace.sql.errors import SqlRefused
from headrace.sql.messages import Asked, Came, packed
from headrace.sql.process import SqlFailed, SqlProcess
from headrace.store.online import Online, in_pieces
from headrace.store.reads import StoreUnavailable, TooLongAgo, TooManyEntities
from headrace.tiles.derive import Deriver
from headrace.tiles.finish import moment
from headrace.tiles.tile import Entity

FIELDS = {"sql", "limit"}
SECONDS = 5.0
USUAL_ROWS, MOST_ROWS = 1_000, 100_000
MOST_BYTES = 8 << 20
LIVE_AT_MOST = 20_000
MOST_WAITING = 16
SPACED_DOT = re.compile(r"\s*\.\s*")


class LiveTables:
    """The rows of live tables: of every entity that has an event in a window now, what /features would answer."""

    def __init__(self, app: App, online: Online, histories: Histories | None) -> None:
        self._online, self._histories = online, histories
        self.columns = {view.name: live_columns(view) for view in app.views}
        self._views = [(view, _named(view), Deriver(view), KeyReader(view)) for view in app.views]

    async def named_in(self, sql: str) -> list[bytes]:
        """The rows of the tables that a query may read, as messages: a name in a comment costs time, and no more."""
        at_us, plain = time.time_ns() // 1000, SPACED_DOT.sub(".", sql.replace('"', ""))
        named = [(view, deriver, keys) for view, name, deriver, keys in self._views if name.search(plain)]
        return [packed(came) for one in named async for came in self._came(*one, at_us)]

    async def _came(self, view: View, deriver: Deriver, keys: KeyReader, at_us: int) -> AsyncIterator[Came]:
        if self._histories is not None:
            await self._histories.require_whole(view)
        entities = await self._entities(view)
        yield Came(view.name, entities if isinstance(entities, str) else [])
        for piece in in_pieces([] if isinstance(entities, str) else entities):
            reads = await self._online.read(view.name, piece, at_us)
            derived = deriver.rows([read.values for read in reads], [{}] * len(piece), piece)
            rows = [
                [*keys.named(entity).values(), *read.values, *more, moment(read.event_time_us)]
                for entity, read, more in zip(piece, reads, derived, strict=True)
                if read.event_time_us is not None
            ]
            yield Came(view.name, rows)
            await asyncio.sleep(0)

    async def _entities(self, view: View) -> Sequence[Entity] | str:
        """Whom a table has, or why they cannot be told: only a query that reads them needs to know."""
        try:
            return await self._online.entities(view.name, LIVE_AT_MOST)
        except (TooManyEntities, StoreUnavailable) as problem:
            return str(problem)


def _named(view: View) -> re.Pattern[str]:
    """A view's name as a query would write it: after `live.`, or alone."""
    return re.compile(rf"(?:(?<!\w)live\.|(?<![\w.])){re.escape(view.name)}(?!\w)", re.IGNORECASE)


class Queries:
    """Asks the process of queries, one after the other; so many may wait."""

    def __init__(self, lake: Path | None, live: LiveTables) -> None:
        self._live, self._process = live, SqlProcess(lake, live.columns)
        self._asking = ThreadPoolExecutor(1, thread_name_prefix="sql")
        self._turn = asyncio.Lock()
        self._waiting = 0

    async def ask(self, sql: str, most_rows: int, most_bytes: int = MOST_BYTES) -> bytes:
        """The answer in JSON."""
        if self._waiting >= MOST_WAITING:
            raise Unavailable(f"{MOST_WAITING} queries wait already. Ask again in a while, or for less each time.")
        self._waiting += 1
        try:
            async with self._turn:
                rows = await self._live.named_in(sql)
                asked = Asked(sql, most_rows, most_bytes, SECONDS)
                return await self._answered(asked, rows)
        except (SqlRefused, TooLongAgo) as refused:
            raise BadRequest(str(refused)) from refused
        except SqlFailed as failed:
            raise Unavailable(str(failed)) from failed
        finally:
            self._waiting -= 1

    async def _answered(self, asked: Asked, rows: list[bytes]) -> bytes:
        """What the process says; whoever goes meanwhile ends the query, and the next is asked once it has ended."""
        answering = asyncio.get_running_loop().run_in_executor(self._asking, self._process.ask, asked, rows)
        try:
            return await asyncio.shield(answering)
        except asyncio.CancelledError:
            self._process.interrupt()
            with suppress(HeadraceError):
                await answering
            raise

    def stop(self) -> None:
        """End the process, and with it what it is asked."""
        self._asking.shutdown(wait=False, cancel_futures=True)
        self._process.stop()


class Sql:
    """Answers POST /sql {"sql": "select …", "limit": 100}."""

    def __init__(self, queries: Queries) -> None:
        self._queries = queries

    async def __call__(self, request: Request) -> Answer:
        return Answer(200, await self._queries.ask(*_asked(request.body)))


def _asked(body: bytes) -> tuple[str, int]:
    asked = json_of(body, '{"sql": "show tables"}')
    if not isinstance(asked, dict) or not asked.keys() <= FIELDS or not isinstance(asked.get("sql"), str):
        raise BadRequest(f'The body is {shown(asked)}. Write {{"sql": "select …"}}, and "limit": 100 if you like.')
    limit = asked.get("limit", USUAL_ROWS)
    if type(limit) is not int or not 1 <= limit <= MOST_ROWS:
        raise BadRequest(f'"limit" is {shown(limit)}. Write a number of rows from 1 to {MOST_ROWS:,}.')
    return asked["sql"], limit
