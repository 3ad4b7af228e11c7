"""GET /history: what the golden numbers were in the last day, kept on disk so that a restart forgets nothing.

now − 1 day ── one a minute ── now − 1 hour ── one every 15 seconds ── now      some 1,700 snapshots, packed
"""

import asyncio
import logging
import sqlite3
import time
import zlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs

from prometheus_client.metrics_core import Metric

from headrace.declare.catalogue import CATALOGUE, TOTAL
from headrace.serve.answers import Answer, BadRequest
from headrace.serve.http import Request
from headrace.serve.live import NOT_KEPT, snapshot

EVERY_SECONDS = 15.0
MINUTE_MS, HOUR_MS, DAY_MS = 60_000, 3_600_000, 86_400_000
AT_MOST = 300
BUSY_SECONDS = 5.0
# Families by the name the client library has for them.
KEPT = {family.name.removesuffix(TOTAL) for family in CATALOGUE.values() if family.is_kept}
LOGGER = logging.getLogger("headrace.serve")


class History:
    """Snapshots in a file; one process writes, any reads."""

    def __init__(self, file: Path) -> None:
        self._file = file

    def add(self, at_ms: int, told: bytes) -> None:
        """Keep a snapshot, thin out what is older than an hour and forget what is older than a day."""
        with self._open() as database:
            database.execute("CREATE TABLE IF NOT EXISTS told (at INTEGER PRIMARY KEY, snapshot BLOB NOT NULL)")
            database.execute("INSERT OR REPLACE INTO told VALUES (?, ?)", (at_ms, zlib.compress(told)))
            others = "DELETE FROM told WHERE at < ? AND at NOT IN (SELECT min(at) FROM told GROUP BY at / ?)"
            database.execute(others, (at_ms - HOUR_MS, MINUTE_MS))
            database.execute("DELETE FROM told WHERE at < ?", (at_ms - DAY_MS,))

    def since(self, at_ms: int) -> list[bytes]:
        """What was kept since a moment, evenly thinned to so many at most."""
        if not self._file.exists():
            return []
        with self._open() as database:
            rows = database.execute("SELECT snapshot FROM told WHERE at >= ? ORDER BY at", (at_ms,)).fetchall()
        return [zlib.decompress(packed) for (packed,) in _thinned(rows)]

    @contextmanager
    def _open(self) -> Iterator[sqlite3.Connection]:
        with closing(sqlite3.connect(self._file, timeout=BUSY_SECONDS)) as database, database:
            yield database


def _thinned(rows: Sequence[Any]) -> Sequence[Any]:
    return rows[:: max(1, -(-len(rows) // AT_MOST))]


async def keep_on(history: History, families: Callable[[], Iterable[Metric]]) -> None:
    """Keep a snapshot every few seconds, until cancelled."""
    while True:
        await asyncio.sleep(EVERY_SECONDS)
        try:
            await asyncio.to_thread(_keep, history, families)
        except (sqlite3.Error, OSError) as problem:  # a full disk: the page shows less
            LOGGER.warning("the history of this moment is not kept: %s", problem)


def _keep(history: History, families: Callable[[], Iterable[Metric]]) -> None:
    history.add(time.time_ns() // 1_000_000, snapshot(one for one in families() if one.name in KEPT))


class Told:
    """Answers with what was kept: GET /history?minutes=60, a day at most."""

    def __init__(self, history: History | None) -> None:
        self._history = history

    async def __call__(self, request: Request) -> Answer:
        asked = parse_qs(request.query.decode("ascii", "replace"), keep_blank_values=True).get("minutes", ["60"])[-1]
        if not asked.isdecimal() or not 1 <= int(asked[:9]) <= DAY_MS // MINUTE_MS:
            raise BadRequest(f"minutes={asked[:50]!r} is no number of minutes up to a day. Ask /history?minutes=60.")
        since_ms = time.time_ns() // 1_000_000 - int(asked) * MINUTE_MS
        told = [] if self._history is None else await asyncio.to_thread(self._history.since, since_ms)
        return Answer(200, b"[%b]" % b",".join(told), headers=NOT_KEPT)
