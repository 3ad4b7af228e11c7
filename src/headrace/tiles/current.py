"""The rows a captured table has now: the newest of each key, and none where it was deleted.

changes  c1 ─ u1 ─ c2 ─ d1 ─ (u1 again, after a crash) ──▶
rows     1    1'   1' 2   2    2

A change of a key is in its place of the database's log: one that is told again is older than what is known, and passed
over. What was deleted is remembered for a while, for the same reason.
"""

from collections import OrderedDict
from collections.abc import Hashable, Iterable
from typing import Any

from headrace.declare.changes import DELETED, LSN, Latest
from headrace.tiles.columns import Values, values_of
from headrace.tiles.events import Event

GONE_AT_MOST = 100_000


class Current:
    """One thread applies changes, any thread asks."""

    def __init__(self, latest: Latest) -> None:
        self._latest = latest
        self._rows: dict[Hashable, Event] = {}
        self._gone: OrderedDict[Hashable, int] = OrderedDict()

    def __len__(self) -> int:
        return len(self._rows)

    def apply(self, changes: Iterable[Event]) -> None:
        """Take changes, in the order of the log."""
        for change in changes:
            key, lsn = change[self._latest.key], change[LSN]
            if lsn is not None and lsn < self._known(key):
                continue
            if change[DELETED]:
                self._rows.pop(key, None)
                self._remember(key, lsn)
            else:
                self._gone.pop(key, None)
                self._rows[key] = change

    def rows(self) -> "Moment":
        """The rows as they are while one question is answered."""
        return Moment(self._latest, self._rows)

    def listed(self) -> list[tuple[Any, ...]]:
        """Every row, with the table's columns in their order."""
        names = self._latest.schema.names
        return [tuple(row[name] for name in names) for row in list(self._rows.values())]

    def _known(self, key: Hashable) -> int:
        row = self._rows.get(key)
        known: int | None = self._gone.get(key) if row is None else row[LSN]
        return -1 if known is None else known

    def _remember(self, key: Hashable, lsn: int | None) -> None:
        if lsn is not None:
            self._gone[key] = lsn
            self._gone.move_to_end(key)
            if len(self._gone) > GONE_AT_MOST:
                self._gone.popitem(last=False)


class Moment:
    """Rows that stay as they were first looked at: several columns of one key are of one row."""

    def __init__(self, latest: Latest, rows: dict[Hashable, Event]) -> None:
        self._latest, self._rows = latest, rows
        self._seen: dict[Hashable, Event | None] = {}

    def looked_up(self, column: str, keys: Values) -> Values:
        """The column's values in the rows of these keys: null where the key is, or has none."""
        found = zip(keys.data.tolist(), keys.valid.tolist(), strict=True)
        rows = [self._row(key) if there else None for key, there in found]
        kind = self._latest.schema.column(column, self._latest.label).kind
        return values_of([None if row is None else row[column] for row in rows], kind)

    def _row(self, key: Hashable) -> Event | None:
        if key not in self._seen:
            self._seen[key] = self._rows.get(key)
        return self._seen[key]
