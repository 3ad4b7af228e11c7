"""The lake's tables as views over their Parquet files, each made anew once its log has grown.

lake/silver/payments/_delta_log or /metadata   ──▶ the files of its newest version, and its columns
                    /hr_day=…/*                ──▶ silver.payments
"""

import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import duckdb

from headrace.lake.logs import TableLog, UnreadableTable, log_of
from headrace.sql.columns import Columns, quoted, refusing, text
from headrace.sql.database import LAYERS, name_of
from headrace.sql.table_columns import columns_of

SETTLED_NS = 1_000_000_000  # a clock of files ticks slowly: two commits may bear one time
GLOBS = frozenset("*?[")


class LakeViews:
    """Views of every table that is in a lake, kept up to date in one connection."""

    def __init__(self, connection: duckdb.DuckDBPyConnection, lake: Path) -> None:
        self._connection, self._lake = connection, lake
        self._seen: dict[str, int | None] = {}

    def refresh(self) -> None:
        """Make the views of tables that are new or have changed, and drop those of tables that are gone."""
        found = {name_of(*log.folder.parts[-2:]): log for log in logs_in(self._lake)}
        alike = Counter(map(str.lower, found))
        for name in self._seen.keys() - found.keys():
            self._connection.execute(f"DROP VIEW IF EXISTS {name}")
            self._seen = {}  # one whose name differs in case alone went with it
        for name, log in found.items():
            changed_ns = (log.folder / log.marker).stat().st_mtime_ns
            if self._seen.get(name) != changed_ns:
                is_settled = time.time_ns() - changed_ns > SETTLED_NS
                query = self._query(log, is_alone=alike[name.lower()] == 1)
                self._connection.execute(f"CREATE OR REPLACE VIEW {name} AS {query}")
                self._seen[name] = changed_ns if is_settled else None

    def _query(self, log: TableLog, *, is_alone: bool) -> str:
        try:
            _require_readable(log.folder, is_alone=is_alone)
            return self._over_files(log)
        except Exception as problem:  # noqa: BLE001  # whatever a format says: one bad table is not the others' matter
            return refusing({"problem": "VARCHAR"}, f"The table at {str(log.folder)!r} cannot be read: {problem}")

    def _over_files(self, log: TableLog) -> str:
        files, columns = log.files(), columns_of(log.columns())
        if not files:
            return f"SELECT {_selected(columns, ())} WHERE false"
        parts = {name: columns[name] for name in log.partitioned_by}
        source = _parquet([file.path for file in files], parts)
        there = self._connection.execute(f"SELECT * FROM {source} LIMIT 0").description or []  # noqa: S608  # quoted
        return f"SELECT {_selected(columns, [name for name, *_ in there])} FROM {source}"  # noqa: S608  # all quoted


def logs_in(lake: Path) -> Iterator[TableLog]:
    """The logs of every table of a lake."""
    for layer in LAYERS:
        logs = (log_of(folder) for folder in sorted((lake / layer).glob("*")))
        yield from (log for log in logs if (log.folder / log.marker).is_dir())


def _require_readable(folder: Path, *, is_alone: bool) -> None:
    if not is_alone:
        raise UnreadableTable("another differs from it in case alone, and SQL knows no case")
    if GLOBS & set(str(folder)):
        raise UnreadableTable("its path has one of *?[ in it, which DuckDB takes for a pattern")


def _selected(columns: Columns, there: Sequence[str]) -> str:
    """Every column as the table has it; one that no file has yet is null."""
    known = {name.lower() for name in there}
    return ", ".join(
        f"{quoted(name) if name.lower() in known else 'NULL'}::{kind} AS {quoted(name)}"
        for name, kind in columns.items()
    )


def _parquet(files: Sequence[Path], parts: Mapping[str, str]) -> str:
    """Files as one table; older ones may lack columns, and the columns of partitions stand in their paths alone."""
    types = ", ".join(f"{text(name)}: {kind}" for name, kind in parts.items())
    split = f"hive_partitioning = true, hive_types = {{{types}}}" if parts else "hive_partitioning = false"
    return f"read_parquet([{', '.join(text(str(file)) for file in files)}], union_by_name = true, {split})"
