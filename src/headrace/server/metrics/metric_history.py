"""GET /history: the golden metrics of the last day, stored on disk so that they survive a restart.

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

from headrace.declare.metric_catalog import METRIC_CATALOG
from headrace.declare.metric_family import TOTAL_SUFFIX
from headrace.server.http.responses import BadRequest, Response
from headrace.server.http.routing import Request
from headrace.server.metrics.live_metrics import NO_STORE_HEADERS, encode_snapshot

SNAPSHOT_SECONDS = 15.0
MINUTE_MS, HOUR_MS, DAY_MS = 60_000, 3_600_000, 86_400_000
MAX_SNAPSHOTS = 300
BUSY_TIMEOUT_SECONDS = 5.0
# Families by their names in the client library.
RECORDED_FAMILIES = {family.name.removesuffix(TOTAL_SUFFIX) for family in METRIC_CATALOG.values() if family.has_history}
LOGGER = logging.getLogger("headrace.serve")


class MetricHistory:
    """Snapshots in a file; one process writes, any process reads."""

    def __init__(self, file: Path) -> None:
        self._file = file

    def add(self, at_ms: int, content: bytes) -> None:
        """Store a snapshot, thin out those older than an hour and delete those older than a day."""
        with self._connect() as database:
            database.execute("CREATE TABLE IF NOT EXISTS told (at INTEGER PRIMARY KEY, snapshot BLOB NOT NULL)")
            database.execute("INSERT OR REPLACE INTO told VALUES (?, ?)", (at_ms, zlib.compress(content)))
            thin_out_sql = "DELETE FROM told WHERE at < ? AND at NOT IN (SELECT min(at) FROM told GROUP BY at / ?)"
            database.execute(thin_out_sql, (at_ms - HOUR_MS, MINUTE_MS))
            database.execute("DELETE FROM told WHERE at < ?", (at_ms - DAY_MS,))

    def read_since(self, at_ms: int) -> list[bytes]:
        """The snapshots since a time, evenly thinned to a maximum number."""
        if not self._file.exists():
            return []
        with self._connect() as database:
            rows = database.execute("SELECT snapshot FROM told WHERE at >= ? ORDER BY at", (at_ms,)).fetchall()
        return [zlib.decompress(compressed) for (compressed,) in _thin_out(rows)]

    @contextmanager
    def _connect(self) -> Iterator[sqlite3.Connection]:
        with closing(sqlite3.connect(self._file, timeout=BUSY_TIMEOUT_SECONDS)) as database, database:
            yield database


def _thin_out(rows: Sequence[Any]) -> Sequence[Any]:
    return rows[:: max(1, -(-len(rows) // MAX_SNAPSHOTS))]


async def record_history(history: MetricHistory, collect_families: Callable[[], Iterable[Metric]]) -> None:
    """Store a snapshot every few seconds, until cancelled."""
    while True:
        await asyncio.sleep(SNAPSHOT_SECONDS)
        try:
            await asyncio.to_thread(_record_snapshot, history, collect_families)
        except (sqlite3.Error, OSError) as problem:  # a full disk: the page shows less
            LOGGER.warning("Could not store the metric history: %s", problem)


def _record_snapshot(history: MetricHistory, collect_families: Callable[[], Iterable[Metric]]) -> None:
    history.add(
        time.time_ns() // 1_000_000,
        encode_snapshot(family for family in collect_families() if family.name in RECORDED_FAMILIES),
    )


class HistoryHandler:
    """Returns stored snapshots: GET /history?minutes=60, a day at most."""

    def __init__(self, history: MetricHistory | None) -> None:
        self._history = history

    async def __call__(self, request: Request) -> Response:
        minutes = parse_qs(request.query.decode("ascii", "replace"), keep_blank_values=True).get("minutes", ["60"])[-1]
        if not minutes.isdecimal() or not 1 <= int(minutes[:9]) <= DAY_MS // MINUTE_MS:
            raise BadRequest(f"minutes={minutes[:50]!r} is no number of minutes up to a day. Ask /history?minutes=60.")
        since_ms = time.time_ns() // 1_000_000 - int(minutes) * MINUTE_MS
        snapshots = [] if self._history is None else await asyncio.to_thread(self._history.read_since, since_ms)
        return Response(200, b"[%b]" % b",".join(snapshots), headers=NO_STORE_HEADERS)
