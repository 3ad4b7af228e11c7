"""Lookup tables in memory: read by key, and reloaded when their file changes.

file     v1 ────────────── v2 ───── broken ───── v3 ──▶
checks   ·  ·  ·  ·  ·  ·  ·  ·  ·  ·  ·  ·  ·  ·  ·       at most one a second, on a lookup
values   v1 ─────────────────v2 ─────────────────── v3     loaded on a separate thread; a broken file is logged
"""

import logging
import threading
import time
from collections import Counter
from collections.abc import Callable, Sequence
from functools import cache
from typing import Any, NamedTuple, Protocol

import numpy as np

from headrace.aggregates.value_columns import ValueColumn, to_value_column
from headrace.declare.streams.change_capture import LatestRows
from headrace.declare.streams.lookup_table import LookupTable, Table, TableBroken
from headrace.tiles.events.captured_table import CapturedTable

LOGGER = logging.getLogger("headrace.tables")
CHECK_SECONDS = 1.0


class FileStamp(NamedTuple):
    """The identity of a file's content."""

    modified_ns: int
    size: int


class FileTableSnapshot:
    """The rows of a table at one time; an extra last row of nulls is for unknown keys."""

    def __init__(self, table: Table, columns: dict[str, list[Any]]) -> None:
        keys = columns[table.key]
        _require_unique_keys(table, keys)
        self._row_by_key = {key: row_number for row_number, key in enumerate(keys) if key is not None}
        self._columns = {
            column.name: to_value_column([*columns[column.name], None], column.kind) for column in table.schema
        }

    def look_up(self, column: str, keys: ValueColumn) -> ValueColumn:
        """The column's values in the rows of these keys: null where the key is null or unknown."""
        pairs = zip(keys.data.tolist(), keys.valid.tolist(), strict=True)
        row_numbers = np.array([self._row_by_key.get(key, -1) if is_valid else -1 for key, is_valid in pairs], np.int64)
        return self._columns[column][row_numbers]

    def list_rows(self, names: Sequence[str]) -> list[tuple[Any, ...]]:
        """Every row with a key: its values of these columns, None for null."""
        columns = [_to_list(self._columns[name]) for name in names]
        return [tuple(column[row_number] for column in columns) for row_number in self._row_by_key.values()]


def _to_list(values: ValueColumn) -> list[Any]:
    pairs = zip(values.data.tolist(), values.valid.tolist(), strict=True)
    return [value if is_valid else None for value, is_valid in pairs]


def _require_unique_keys(table: Table, keys: list[Any]) -> None:
    ((key, count),) = Counter(key for key in keys if key is not None).most_common(1) or [(None, 0)]
    if count > 1:
        raise TableBroken(f"{str(table.path)!r} has {count} rows with {table.key}={key!r}. Keep one of them.")


class FileTable:
    """The rows of a table's file, as of the last check; many threads may read."""

    def __init__(self, table: Table) -> None:
        self.table = table
        self.problem = ""
        self._stamp: FileStamp | None = None
        self._next_check = time.monotonic() + CHECK_SECONDS
        self._reload_lock = threading.Lock()
        self._snapshot = self._load_first()

    def snapshot(self) -> FileTableSnapshot:
        """The current rows; now and then starts a check of the file, whose result serves later requests."""
        if time.monotonic() >= self._next_check and self._reload_lock.acquire(blocking=False):
            self._next_check = time.monotonic() + CHECK_SECONDS
            threading.Thread(target=self._reload_if_changed, name=f"table {self.table.path.name}", daemon=True).start()
        return self._snapshot

    def _load_first(self) -> FileTableSnapshot:
        """The file's content; a missing file with declared columns is an empty table."""
        stamp = _file_stamp(self.table)
        if stamp is None:
            self._warn_once(f"{str(self.table.path)!r} is missing: every key is unknown until it exists.")
            return FileTableSnapshot(self.table, {name: [] for name in self.table.schema.names})
        snapshot = FileTableSnapshot(self.table, self.table.read())
        self._stamp = stamp
        return snapshot

    def _reload_if_changed(self) -> None:
        try:
            # Read before the file: a file that changes meanwhile is reloaded at the next check.
            stamp = _file_stamp(self.table)
            if stamp is None:
                self._warn_once(f"{str(self.table.path)!r} is missing; its last rows stay.")
            elif stamp != self._stamp:
                self._snapshot = FileTableSnapshot(self.table, self.table.read())
                self._stamp, self.problem = stamp, ""
                LOGGER.info("Reloaded %s", self.table.path)
        except TableBroken as problem:
            self._warn_once(f"{problem} Until then its last rows stay.")
        finally:
            self._reload_lock.release()

    def _warn_once(self, problem: str) -> None:
        """Log a problem once, not once a second."""
        if problem != self.problem:
            LOGGER.warning(problem)
        self.problem = problem


def _file_stamp(table: Table) -> FileStamp | None:
    try:
        stat = table.path.stat()
    except OSError:
        return None
    return FileStamp(stat.st_mtime_ns, stat.st_size)


class TableSnapshot(Protocol):
    """Rows as of one time."""

    def look_up(self, column: str, keys: ValueColumn) -> ValueColumn: ...


class InMemoryTable(Protocol):
    """The rows of a table in this process."""

    def snapshot(self) -> TableSnapshot: ...


@cache
def shared_file_table(table: Table) -> FileTable:
    """The shared copy of a file's rows in this process, for every view that reads it."""
    return FileTable(table)


@cache
def shared_captured_table(latest: LatestRows) -> CapturedTable:
    """The rows of a captured table in this process, to which its consumer applies changes."""
    return CapturedTable(latest)


def shared_table(table: LookupTable) -> InMemoryTable:
    """The shared copy of a table in this process."""
    return _open_table(table, shared_file_table)


def unshared_table(table: LookupTable) -> InMemoryTable:
    """A separate copy of a file's rows; a captured table has only the shared one."""
    return _open_table(table, FileTable)


def _open_table(table: LookupTable, open_file_table: Callable[[Table], FileTable]) -> InMemoryTable:
    if isinstance(table, LatestRows):
        return shared_captured_table(table)
    if isinstance(table, Table):
        return open_file_table(table)
    raise TypeError(f"{table.label}: there is no in-memory copy of a {type(table).__name__}")
