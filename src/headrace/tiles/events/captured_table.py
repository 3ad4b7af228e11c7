"""The current rows of a captured table: the newest of each key, and none where it was deleted.

changes  c1 ─ u1 ─ c2 ─ d1 ─ (u1 again, after a crash) ──▶
rows     1    1'   1' 2   2    2

A change of a key has an offset in the database's log: a repeated one is older than the known row, and skipped.
Deleted rows are remembered for a while, for the same reason.
"""

from collections import OrderedDict
from collections.abc import Hashable, Iterable
from typing import Any

from headrace.aggregates.value_columns import ValueColumn, to_value_column
from headrace.declare.streams.change_capture import DELETED, LSN, LatestRows
from headrace.tiles.events.event_parser import Event

MAX_DELETED_KEYS = 100_000


class CapturedTable:
    """The rows of a captured table; one thread applies changes, any thread reads."""

    def __init__(self, latest: LatestRows) -> None:
        self._latest = latest
        self._rows: dict[Hashable, Event] = {}
        self._deleted_lsns: OrderedDict[Hashable, int] = OrderedDict()

    def __len__(self) -> int:
        return len(self._rows)

    def apply(self, changes: Iterable[Event]) -> None:
        """Apply changes, in the order of the log."""
        for change in changes:
            key, lsn = change[self._latest.key], change[LSN]
            if lsn is not None and lsn < self._last_lsn(key):
                continue
            if change[DELETED]:
                self._rows.pop(key, None)
                self._remember_deletion(key, lsn)
            else:
                self._deleted_lsns.pop(key, None)
                self._rows[key] = change

    def snapshot(self) -> "CapturedTableSnapshot":
        """The rows as they are while one request is served."""
        return CapturedTableSnapshot(self._latest, self._rows)

    def list_rows(self) -> list[tuple[Any, ...]]:
        """Every row, with the table's columns in their order."""
        names = self._latest.schema.names
        return [tuple(row[name] for name in names) for row in list(self._rows.values())]

    def _last_lsn(self, key: Hashable) -> int:
        row = self._rows.get(key)
        lsn: int | None = self._deleted_lsns.get(key) if row is None else row[LSN]
        return -1 if lsn is None else lsn

    def _remember_deletion(self, key: Hashable, lsn: int | None) -> None:
        if lsn is not None:
            self._deleted_lsns[key] = lsn
            self._deleted_lsns.move_to_end(key)
            if len(self._deleted_lsns) > MAX_DELETED_KEYS:
                self._deleted_lsns.popitem(last=False)


class CapturedTableSnapshot:
    """Rows as of their first lookup, so that several columns of one key are of one row."""

    def __init__(self, latest: LatestRows, rows: dict[Hashable, Event]) -> None:
        self._latest, self._rows = latest, rows
        self._cache: dict[Hashable, Event | None] = {}

    def look_up(self, column: str, keys: ValueColumn) -> ValueColumn:
        """The column's values in the rows of these keys: null where the key is null or unknown."""
        pairs = zip(keys.data.tolist(), keys.valid.tolist(), strict=True)
        rows = [self._find_row(key) if is_valid else None for key, is_valid in pairs]
        kind = self._latest.schema.column(column, self._latest.label).kind
        return to_value_column([None if row is None else row[column] for row in rows], kind)

    def _find_row(self, key: Hashable) -> Event | None:
        if key not in self._cache:
            self._cache[key] = self._rows.get(key)
        return self._cache[key]
