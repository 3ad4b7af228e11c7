"""Views over the Parquet files of the lake's tables, recreated when a table's log has grown.

lake/silver/payments/_delta_log or /metadata   ──▶ the files of its newest version, and its columns
                    /hr_day=…/*                ──▶ silver.payments
"""

import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import duckdb

from headrace.lake.formats.table_format import TableFormat, UnreadableTableError, open_table_format
from headrace.sql.duckdb_connection import LAYERS, qualified_name
from headrace.sql.lake_columns import to_sql_columns
from headrace.sql.live_columns import SqlColumns, build_raising_query, quote_identifier, quote_string

MTIME_GRANULARITY_NS = 1_000_000_000  # file clocks are coarse: two commits may have the same time
GLOB_CHARACTERS = frozenset("*?[")


class LakeViews:
    """Views of every table of a lake, kept up to date in one connection."""

    def __init__(self, connection: duckdb.DuckDBPyConnection, lake_folder: Path) -> None:
        self._connection, self._lake_folder = connection, lake_folder
        self._modified_ns: dict[str, int | None] = {}

    def refresh(self) -> None:
        """Create the views of tables that are new or have changed, and drop those of removed tables."""
        tables = {qualified_name(*table.folder.parts[-2:]): table for table in open_table_formats(self._lake_folder)}
        lower_case_counts = Counter(map(str.lower, tables))
        for name in self._modified_ns.keys() - tables.keys():
            self._connection.execute(f"DROP VIEW IF EXISTS {name}")
            self._modified_ns = {}  # a view whose name differs in case alone was dropped with it
        for name, log in tables.items():
            modified_ns = (log.folder / log.metadata_folder).stat().st_mtime_ns
            if self._modified_ns.get(name) != modified_ns:
                is_settled = time.time_ns() - modified_ns > MTIME_GRANULARITY_NS
                query = self._view_query(log, is_unique=lower_case_counts[name.lower()] == 1)
                self._connection.execute(f"CREATE OR REPLACE VIEW {name} AS {query}")
                self._modified_ns[name] = modified_ns if is_settled else None

    def _view_query(self, table: TableFormat, *, is_unique: bool) -> str:
        try:
            _require_readable(table.folder, is_unique=is_unique)
            return self._files_query(table)
        except Exception as problem:  # noqa: BLE001  # one unreadable table must not affect the others
            return build_raising_query(
                {"problem": "VARCHAR"}, f"The table at {str(table.folder)!r} cannot be read: {problem}"
            )

    def _files_query(self, table: TableFormat) -> str:
        files, columns = table.list_files(), to_sql_columns(table.read_schema())
        if not files:
            return f"SELECT {_select_list(columns, ())} WHERE false"
        partition_types = {name: columns[name] for name in table.partition_columns}
        source = _parquet_source([file.path for file in files], partition_types)
        file_columns = self._connection.execute(f"SELECT * FROM {source} LIMIT 0").description or []  # noqa: S608  # quoted
        return f"SELECT {_select_list(columns, [name for name, *_ in file_columns])} FROM {source}"  # noqa: S608  # all quoted


def open_table_formats(lake_folder: Path) -> Iterator[TableFormat]:
    """Every table of a lake in its table format."""
    for layer in LAYERS:
        tables = (open_table_format(folder) for folder in sorted((lake_folder / layer).glob("*")))
        yield from (table for table in tables if (table.folder / table.metadata_folder).is_dir())


def _require_readable(folder: Path, *, is_unique: bool) -> None:
    if not is_unique:
        raise UnreadableTableError("another differs from it in case alone, and SQL ignores case")
    if GLOB_CHARACTERS & set(str(folder)):
        raise UnreadableTableError("its path contains one of *?[, which DuckDB takes for a pattern")


def _select_list(columns: SqlColumns, available_columns: Sequence[str]) -> str:
    """Every column with the table's type; one that no file has yet is null."""
    available_names = {name.lower() for name in available_columns}
    return ", ".join(
        f"{quote_identifier(name) if name.lower() in available_names else 'NULL'}::{sql_type} AS "
        f"{quote_identifier(name)}"
        for name, sql_type in columns.items()
    )


def _parquet_source(files: Sequence[Path], partition_types: Mapping[str, str]) -> str:
    """Files as one table; older files may lack columns, and partition columns are only in their paths."""
    types = ", ".join(f"{quote_string(name)}: {sql_type}" for name, sql_type in partition_types.items())
    partitioning = (
        f"hive_partitioning = true, hive_types = {{{types}}}" if partition_types else "hive_partitioning = false"
    )
    return (
        f"read_parquet([{', '.join(quote_string(str(file)) for file in files)}], union_by_name = true, {partitioning})"
    )
