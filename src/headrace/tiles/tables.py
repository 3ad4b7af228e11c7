"""Tables in memory: looked up by key, and read again when their file changes.

file     v1 ────────────── v2 ───── broken ───── v3 ──▶
looks    ·  ·  ·  ·  ·  ·  ·  ·  ·  ·  ·  ·  ·  ·  ·       at most one a second, when somebody asks
values   v1 ─────────────────v2 ─────────────────── v3     read by a thread of its own; what is broken is logged
"""

import logging
import threading
import time
from collections import Counter
from collections.abc import Callable, Sequence
from functools import cache
from typing import Any, NamedTuple, Protocol

import numpy as np

from headrace.declare.changes import Latest
from headrace.declare.table import Keyed, Table, TableBroken
from headrace.tiles.columns import Values, values_of
from headrace.tiles.current import Current

LOGGER = logging.getLogger("headrace.tables")
LOOK_SECONDS = 1.0


class Stamp(NamedTuple):
    """What tells one state of a file from another."""

    modified_ns: int
    size: int


class Rows:
    """The rows of a table at one moment; after the last stands one of nulls, for keys that have none."""

    def __init__(self, table: Table, columns: dict[str, list[Any]]) -> None:
        keys = columns[table.key]
        _require_one_a_key(table, keys)
        self._places = {key: place for place, key in enumerate(keys) if key is not None}
        self._columns = {column.name: values_of([*columns[column.name], None], column.kind) for column in table.schema}

    def looked_up(self, column: str, keys: Values) -> Values:
        """The column's values in the rows of these keys: null where the key is, or is unknown."""
        found = zip(keys.data.tolist(), keys.valid.tolist(), strict=True)
        places = np.array([self._places.get(key, -1) if there else -1 for key, there in found], np.int64)
        return self._columns[column][places]

    def listed(self, names: Sequence[str]) -> list[tuple[Any, ...]]:
        """Every row that has a key: its values of these columns, None for null."""
        columns = [_plain(self._columns[name]) for name in names]
        return [tuple(column[place] for column in columns) for place in self._places.values()]


def _plain(values: Values) -> list[Any]:
    found = zip(values.data.tolist(), values.valid.tolist(), strict=True)
    return [value if there else None for value, there in found]


def _require_one_a_key(table: Table, keys: list[Any]) -> None:
    ((key, times),) = Counter(key for key in keys if key is not None).most_common(1) or [(None, 0)]
    if times > 1:
        raise TableBroken(
            f"{str(table.path)!r} has {times} rows with {table.key}={key!r}. Keep one: which one counts is not for us."
        )


class Loaded:
    """A table's rows, as its file was when it was last looked at; many threads may ask."""

    def __init__(self, table: Table) -> None:
        self.table = table
        self.trouble = ""
        self._stamp: Stamp | None = None
        self._look_after = time.monotonic() + LOOK_SECONDS
        self._looking = threading.Lock()
        self._rows = self._first()

    def rows(self) -> Rows:
        """The rows to answer with; now and then a look at the file is begun, and its result is for later questions."""
        if time.monotonic() >= self._look_after and self._looking.acquire(blocking=False):
            self._look_after = time.monotonic() + LOOK_SECONDS
            threading.Thread(target=self._look, name=f"table {self.table.path.name}", daemon=True).start()
        return self._rows

    def _first(self) -> Rows:
        """The file as it is; one that is not there yet, and whose columns were declared, is a table without rows."""
        stamp = _stamp_of(self.table)
        if stamp is None:
            self._say(f"{str(self.table.path)!r} is not there: every key is unknown until it is.")
            return Rows(self.table, {name: [] for name in self.table.schema.names})
        rows = Rows(self.table, self.table.read())
        self._stamp = stamp
        return rows

    def _look(self) -> None:
        try:
            # Taken before the file is read: one that changes meanwhile is another one at the next look.
            stamp = _stamp_of(self.table)
            if stamp is None:
                self._say(f"{str(self.table.path)!r} is gone; its last rows stay.")
            elif stamp != self._stamp:
                self._rows = Rows(self.table, self.table.read())
                self._stamp, self.trouble = stamp, ""
                LOGGER.info("%s was read again", self.table.path)
        except TableBroken as problem:
            self._say(f"{problem} Until then its last rows stay.")
        finally:
            self._looking.release()

    def _say(self, trouble: str) -> None:
        """Log a trouble once, not once a second."""
        if trouble != self.trouble:
            LOGGER.warning(trouble)
        self.trouble = trouble


def _stamp_of(table: Table) -> Stamp | None:
    try:
        found = table.path.stat()
    except OSError:
        return None
    return Stamp(found.st_mtime_ns, found.st_size)


class RowsNow(Protocol):
    """Rows at one moment."""

    def looked_up(self, column: str, keys: Values) -> Values: ...


class Copy(Protocol):
    """A table's rows in this process."""

    def rows(self) -> RowsNow: ...


@cache
def loaded(table: Table) -> Loaded:
    """The one copy of a file's rows in this process, for every view that reads it."""
    return Loaded(table)


@cache
def current(latest: Latest) -> Current:
    """The rows of a captured table in this process: whoever follows its changes applies them here."""
    return Current(latest)


def shared(table: Keyed) -> Copy:
    """The one copy of a table in this process."""
    return _copy(table, loaded)


def fresh(table: Keyed) -> Copy:
    """A copy of its own of a file's rows; of a captured table's there is one."""
    return _copy(table, Loaded)


def _copy(table: Keyed, of_file: Callable[[Table], Loaded]) -> Copy:
    if isinstance(table, Latest):
        return current(table)
    if isinstance(table, Table):
        return of_file(table)
    raise TypeError(f"{table.label}: nobody keeps rows of a {type(table).__name__}")
