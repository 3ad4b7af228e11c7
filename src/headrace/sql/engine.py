"""Runs queries with DuckDB: locked, limited, and in a read-only transaction.

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

from headrace.sql.duckdb_connection import (
    LIVE_SCHEMA,
    create_raising_view,
    lock_connection,
    open_connection,
    qualified_name,
)
from headrace.sql.errors import SHOW_TABLES_HINT, QueryMemoryError, QueryTimeoutError, SqlRefused
from headrace.sql.json_values import row_to_json
from headrace.sql.lake_views import LakeViews
from headrace.sql.live_columns import SqlColumns, quote_identifier
from headrace.sql.statement import describe_duckdb_error, parse_read_only_query
from headrace.sql.worker_messages import LiveRows, SqlRequest, max_wait_seconds

FETCH_SIZE = 1_000
CHECK_INTERVAL_SECONDS = 0.05


class SqlEngine:
    """A locked in-memory database over a lake and live tables whose rows come with each query; for one thread."""

    def __init__(self, lake_folder: Path | None, live_columns: Mapping[str, SqlColumns]) -> None:
        lake_folder = None if lake_folder is None else lake_folder.resolve()
        self._connection, self._live_columns = open_connection(), live_columns
        self._lake_views = None if lake_folder is None else LakeViews(self._connection, lake_folder)
        for view in live_columns:
            self._reset_live_table(view)
        lock_connection(self._connection, lake_folder)

    def run_query(self, request: SqlRequest, live_rows: Mapping[str, LiveRows | str]) -> bytes:
        """The result as JSON; `live_rows` has the rows of the live tables, or says why there are none."""
        started = time.perf_counter()
        query = parse_read_only_query(self._connection, request.sql)
        if self._lake_views is not None:
            self._lake_views.refresh()
        with (
            self._filled_live_tables(live_rows),
            self._read_only_transaction(),
            self._time_limit(request.limit_seconds),
        ):
            try:
                columns, rows, is_truncated = self._fetch_rows(query, request)
            except (duckdb.Error, MemoryError) as problem:
                raise _to_sql_refused(problem, request) from problem
        took_ms = round((time.perf_counter() - started) * 1000, 1)
        return b'{"columns":%b,"rows":[%b],"took_ms":%a,"cut":%b}' % (
            orjson.dumps(columns),
            b",".join(rows),
            took_ms,
            b"true" if is_truncated else b"false",
        )

    def _fetch_rows(self, query: str, request: SqlRequest) -> tuple[list[dict[str, str]], list[bytes], bool]:
        """Columns and rows, and whether there were more: DuckDB produces rows as they are fetched."""
        cursor = self._connection.execute(query)
        columns = [{"name": name, "type": str(kind)} for name, kind, *_ in cursor.description or []]
        rows, size = list[bytes](), 0
        while fetched_rows := cursor.fetchmany(FETCH_SIZE):
            for row in map(row_to_json, fetched_rows):
                size += len(row)
                if len(rows) == request.max_rows or size > request.max_bytes:
                    return columns, rows, True
                rows.append(row)
        return columns, rows, False

    @contextmanager
    def _time_limit(self, limit_seconds: float) -> Iterator[None]:
        """Interrupts a query that exceeds its CPU time, or has waited far longer than that for a core."""
        is_finished = threading.Event()
        watchdog = threading.Thread(target=self._interrupt_after, args=(limit_seconds, is_finished), daemon=True)
        watchdog.start()
        try:
            yield
        finally:
            is_finished.set()
            watchdog.join()

    def _interrupt_after(self, limit_seconds: float, is_finished: threading.Event) -> None:
        cpu_deadline, wall_deadline = (
            time.process_time() + limit_seconds,
            time.monotonic() + max_wait_seconds(limit_seconds),
        )
        while not is_finished.wait(CHECK_INTERVAL_SECONDS):
            if time.process_time() > cpu_deadline or time.monotonic() > wall_deadline:
                self._connection.interrupt()
                return

    @contextmanager
    def _read_only_transaction(self) -> Iterator[None]:
        """A second barrier behind the parser's check."""
        self._connection.execute("BEGIN TRANSACTION READ ONLY")
        try:
            yield
        finally:
            self._connection.execute("ROLLBACK")

    @contextmanager
    def _filled_live_tables(self, live_rows: Mapping[str, LiveRows | str]) -> Iterator[None]:
        """Fill the live tables with these rows for the duration of the query."""
        try:
            for view, rows in live_rows.items():
                if isinstance(rows, str):
                    create_raising_view(
                        self._connection, qualified_name(LIVE_SCHEMA, view), self._live_columns[view], rows
                    )
                else:
                    self._create_live_table(view, rows)
            yield
        finally:
            for view in live_rows:
                self._reset_live_table(view)

    def _create_live_table(self, view: str, rows: LiveRows) -> None:
        table, columns = qualified_name(LIVE_SCHEMA, view), self._live_columns[view]
        column_definitions = ", ".join(f"{quote_identifier(name)} {sql_type}" for name, sql_type in columns.items())
        self._connection.execute(f"DROP VIEW IF EXISTS {table}; CREATE TABLE {table} ({column_definitions})")
        schema = self._connection.sql(f"FROM {table}").to_arrow_table().schema
        columns_of_values = zip(*rows, strict=True) if rows else [[] for _ in schema]
        arrays = [_to_arrow_array(values, field.type) for values, field in zip(columns_of_values, schema, strict=True)]
        self._connection.register("filling", pa.Table.from_arrays(arrays, schema=schema))
        self._connection.execute(f"INSERT INTO {table} FROM filling")
        self._connection.unregister("filling")

    def _reset_live_table(self, view: str) -> None:
        table = qualified_name(LIVE_SCHEMA, view)
        with suppress(duckdb.CatalogException):  # it is already a view
            self._connection.execute(f"DROP TABLE IF EXISTS {table}")
        message = f"The rows of {table} come with the query that names it. Write its name as it is: {table}."
        create_raising_view(self._connection, table, self._live_columns[view], message)


def _to_sql_refused(problem: duckdb.Error | MemoryError, request: SqlRequest) -> SqlRefused:
    match problem:
        case duckdb.InterruptException():  # only the time limit interrupts
            return QueryTimeoutError(request.limit_seconds)
        case duckdb.OutOfMemoryException() | MemoryError():
            return QueryMemoryError()
        case duckdb.PermissionException():
            return SqlRefused(f"Queries read the tables of this app, and no files. {SHOW_TABLES_HINT}")
        case duckdb.CatalogException():
            return SqlRefused(f"{describe_duckdb_error(problem, request.sql)}\n{SHOW_TABLES_HINT}")
    return SqlRefused(describe_duckdb_error(problem, request.sql))


def _to_arrow_array(values: Sequence[Any], arrow_type: pa.DataType) -> pa.Array:
    """A column in Arrow, which takes a map as a list of pairs."""
    pairs = (
        [value if value is None else list(value.items()) for value in values] if pa.types.is_map(arrow_type) else values
    )
    return pa.array(pairs, arrow_type)
