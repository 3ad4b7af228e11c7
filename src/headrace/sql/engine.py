"""Answers queries with DuckDB: locked, limited, and in a transaction that can change nothing.

lake/…/*.parquet ──▶ bronze.* silver.* gold.*  (views) ┐
rows of a server ──▶ live.*                   (tables) ┴──▶ one query, read-only ──▶ rows in JSON
"""

import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import duckdb
import orjson
import pyarrow as pa

from headrace.sql.columns import Columns, quoted
from headrace.sql.database import LIVE, lock, name_of, opened, stand_in
from headrace.sql.errors import TABLES, SqlRefused, TookTooLong, TookTooMuch
from headrace.sql.lake_views import LakeViews
from headrace.sql.messages import Asked, Rows, longest_wait
from headrace.sql.statement import readable, said
from headrace.sql.values import row_in_json

AT_ONCE = 1_000
LOOK_SECONDS = 0.05


class Engine:
    """One locked database in memory, over a lake and tables whose rows come with each query; for one thread."""

    def __init__(self, lake: Path | None, live: Mapping[str, Columns]) -> None:
        lake = None if lake is None else lake.resolve()
        self._connection, self._live = opened(), live
        self._views = None if lake is None else LakeViews(self._connection, lake)
        for view in live:
            self._forget(view)
        lock(self._connection, lake)

    def answer(self, asked: Asked, live: Mapping[str, Rows | str]) -> bytes:
        """The answer in JSON; `live` has the rows of the live tables it may read, or says why there are none."""
        began = time.perf_counter()
        query = readable(self._connection, asked.sql)
        if self._views is not None:
            self._views.refresh()
        with self._filled(live), self._read_only(), self._limited(asked.seconds):
            try:
                columns, rows, is_cut = self._fetched(query, asked)
            except (duckdb.Error, MemoryError) as problem:
                raise _refusal(problem, asked) from problem
        took_ms = round((time.perf_counter() - began) * 1000, 1)
        return b'{"columns":%b,"rows":[%b],"took_ms":%a,"cut":%b}' % (
            orjson.dumps(columns),
            b",".join(rows),
            took_ms,
            b"true" if is_cut else b"false",
        )

    def _fetched(self, query: str, asked: Asked) -> tuple[list[dict[str, str]], list[bytes], bool]:
        """Columns and rows, and whether there were more: DuckDB makes rows as they are fetched."""
        cursor = self._connection.execute(query)
        columns = [{"name": name, "type": str(kind)} for name, kind, *_ in cursor.description or []]
        rows, size = list[bytes](), 0
        while fetched := cursor.fetchmany(AT_ONCE):
            for row in map(row_in_json, fetched):
                size += len(row)
                if len(rows) == asked.most_rows or size > asked.most_bytes:
                    return columns, rows, True
                rows.append(row)
        return columns, rows, False

    @contextmanager
    def _limited(self, seconds: float) -> Iterator[None]:
        """Interrupts a query that has computed for too long, or has waited far longer than that for a core."""
        is_over = threading.Event()
        watch = threading.Thread(target=self._interrupt_after, args=(seconds, is_over), daemon=True)
        watch.start()
        try:
            yield
        finally:
            is_over.set()
            watch.join()

    def _interrupt_after(self, seconds: float, is_over: threading.Event) -> None:
        computed_until, waits_until = time.process_time() + seconds, time.monotonic() + longest_wait(seconds)
        while not is_over.wait(LOOK_SECONDS):
            if time.process_time() > computed_until or time.monotonic() > waits_until:
                self._connection.interrupt()
                return

    @contextmanager
    def _read_only(self) -> Iterator[None]:
        """A parser that lets something pass is not the last door."""
        self._connection.execute("BEGIN TRANSACTION READ ONLY")
        try:
            yield
        finally:
            self._connection.execute("ROLLBACK")

    @contextmanager
    def _filled(self, live: Mapping[str, Rows | str]) -> Iterator[None]:
        """Live tables with these rows, for as long as it takes to answer."""
        try:
            for view, rows in live.items():
                if isinstance(rows, str):
                    stand_in(self._connection, name_of(LIVE, view), self._live[view], rows)
                else:
                    self._fill(view, rows)
            yield
        finally:
            for view in live:
                self._forget(view)

    def _fill(self, view: str, rows: Rows) -> None:
        table, columns = name_of(LIVE, view), self._live[view]
        declared = ", ".join(f"{quoted(name)} {kind}" for name, kind in columns.items())
        self._connection.execute(f"DROP VIEW IF EXISTS {table}; CREATE TABLE {table} ({declared})")
        schema = self._connection.sql(f"FROM {table}").to_arrow_table().schema
        by_column = zip(*rows, strict=True) if rows else [[] for _ in schema]
        arrays = [_array(values, field.type) for values, field in zip(by_column, schema, strict=True)]
        self._connection.register("filling", pa.Table.from_arrays(arrays, schema=schema))
        self._connection.execute(f"INSERT INTO {table} FROM filling")
        self._connection.unregister("filling")

    def _forget(self, view: str) -> None:
        table = name_of(LIVE, view)
        with suppress(duckdb.CatalogException):  # it is a view already
            self._connection.execute(f"DROP TABLE IF EXISTS {table}")
        sentence = f"The rows of {table} come with the query that names it. Write its name as it is: {table}."
        stand_in(self._connection, table, self._live[view], sentence)


def _refusal(problem: duckdb.Error | MemoryError, asked: Asked) -> SqlRefused:
    match problem:
        case duckdb.InterruptException():  # nobody else interrupts
            return TookTooLong(asked.seconds)
        case duckdb.OutOfMemoryException() | MemoryError():
            return TookTooMuch()
        case duckdb.PermissionException():
            return SqlRefused(f"Queries read the tables of this app, and no files. {TABLES}")
        case duckdb.CatalogException():
            return SqlRefused(f"{said(problem, asked.sql)}\n{TABLES}")
    return SqlRefused(said(problem, asked.sql))


def _array(values: Sequence[Any], kind: pa.DataType) -> pa.Array:
    """A column in Arrow, which takes a map as a list of pairs."""
    pairs = [value if value is None else list(value.items()) for value in values] if pa.types.is_map(kind) else values
    return pa.array(pairs, kind)
