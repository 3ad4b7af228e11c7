"""The table of a sink in ClickHouse: created if it is missing, and checked before any row is sent.

key=                 ReplacingMergeTree(hr_version) ORDER BY key            one row per key
no key, exactly once ReplacingMergeTree ORDER BY (hr_partition, hr_offset)  one row per offset
no key               MergeTree ORDER BY (hr_partition, hr_offset)           a retry writes duplicates

Readers see duplicates as one row with FINAL, or once the server has merged them.
"""

import re
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass

from headrace.connectors.sinks.clickhouse.http_client import quote_identifier, quote_string
from headrace.connectors.sinks.clickhouse.native_format import ClickHouseColumn
from headrace.connectors.sinks.writer import TargetUnavailable
from headrace.declare.sinks.sink import OFFSET, PARTITION, VERSION, Sink

# The types that hold every value of a column; a new table uses the first one that the server knows.
ACCEPTED_TYPES = {
    "string": ("String",),
    "boolean": ("Bool", "UInt8"),
    "tinyint": ("Int8", "Int16", "Int32", "Int64"),
    "smallint": ("Int16", "Int32", "Int64"),
    "int": ("Int32", "Int64"),
    "bigint": ("Int64",),
    "float": ("Float32", "Float64"),
    "double": ("Float64",),
    "timestamp": ("DateTime64(6)", "Int64"),
}
OFFSET_COLUMNS = {PARTITION: ("Int32",), OFFSET: ("Int64",)}
_WRAPPED_TYPE = re.compile(r"(LowCardinality|Nullable)\((.*)\)")
_DATETIME64_MICROSECONDS = re.compile(r"DateTime64\(6(, '[^']*')?\)")


@dataclass(frozen=True)
class ClickHouseTableInfo:
    """A table's description by the server: its engine, its sorting key, and the types of its columns."""

    engine: str
    engine_with_settings: str
    sorting_key: tuple[str, ...]
    column_types: Mapping[str, str]


@dataclass(frozen=True)
class ClickHouseTableSpec:
    """The table that a sink needs."""

    sink: Sink
    database: str
    table: str

    @property
    def qualified_name(self) -> str:
        """Its quoted name for statements."""
        return f"{quote_identifier(self.database)}.{quote_identifier(self.table)}"

    @property
    def accepted_types(self) -> dict[str, tuple[str, ...]]:
        """The accepted types of each column, by name."""
        declared_types = {column.name: ACCEPTED_TYPES[column.type] for column in self.sink.schema}
        return declared_types | OFFSET_COLUMNS | ({VERSION: ("UInt64",)} if self.sink.key else {})

    @property
    def sorting_key(self) -> tuple[str, ...]:
        return self.sink.key or (PARTITION, OFFSET)

    @property
    def engine(self) -> str:
        if self.sink.key:
            return f"ReplacingMergeTree({VERSION})"
        return "ReplacingMergeTree()" if self.sink.delivery == "exactly_once" else "MergeTree()"

    def where_clause(self, column: str) -> str:
        """The condition that selects it in a system table, whose `column` has the tables' names."""
        return f"database = {quote_string(self.database)} AND {column} = {quote_string(self.table)}"

    def create_statement(self, known_families: Collection[str]) -> str:
        """The statement that creates it; `known_families` are the families of types that the server has."""
        columns = ", ".join(
            f"{quote_identifier(name)} {self._column_type(name, types, known_families)}"
            for name, types in self.accepted_types.items()
        )
        order_by = ", ".join(map(quote_identifier, self.sorting_key))
        return (
            f"CREATE TABLE IF NOT EXISTS {self.qualified_name} ({columns}) ENGINE = {self.engine} ORDER BY ({order_by})"
        )

    def missing_columns(self, table_info: ClickHouseTableInfo) -> dict[str, tuple[str, ...]]:
        """The new columns of the stream since a sink created the table; none if another program created it."""
        if not OFFSET_COLUMNS.keys() <= table_info.column_types.keys():
            return {}
        return {
            column.name: ACCEPTED_TYPES[column.type]
            for column in self.sink.schema
            if column.name not in table_info.column_types
        }

    def alter_statement(self, table_info: ClickHouseTableInfo, known_families: Collection[str]) -> str:
        """The statement that adds those; it fails if another copy was faster, and the table is then read again."""
        columns = (
            f"{quote_identifier(name)} {self._column_type(name, types, known_families)}"
            for name, types in self.missing_columns(table_info).items()
        )
        return f"ALTER TABLE {self.qualified_name} " + ", ".join(f"ADD COLUMN {column}" for column in columns)

    def match_columns(self, table_info: ClickHouseTableInfo) -> tuple[ClickHouseColumn, ...]:
        """The actual columns of the table; raises an error that says how to change a table that does not match."""
        table_columns = tuple(
            self._match_column(name, types, table_info.column_types.get(name))
            for name, types in self.accepted_types.items()
        )
        if self.engine.startswith("Replacing"):
            self._require_deduplicating_engine(table_info)
        return table_columns

    def _column_type(self, name: str, types: Iterable[str], known_families: Collection[str]) -> str:
        chosen_type = next(type_name for type_name in types if type_name.partition("(")[0] in known_families)
        utc_type = "DateTime64(6, 'UTC')" if chosen_type == "DateTime64(6)" else chosen_type
        return utc_type if name in self.sorting_key or name in (*OFFSET_COLUMNS, VERSION) else f"Nullable({utc_type})"

    def _match_column(self, name: str, types: Iterable[str], actual_type: str | None) -> ClickHouseColumn:
        bare_type, is_nullable = _unwrap_type(actual_type or "")
        if _DATETIME64_MICROSECONDS.sub("DateTime64(6)", bare_type) in types:
            return ClickHouseColumn(name, bare_type, is_nullable)
        difference = f"has {name!r} as {actual_type}" if actual_type else f"has no column {name!r} that takes values"
        raise TargetUnavailable(
            f"{self.sink.name}: the table {self.database}.{self.table} {difference}, and it has to be "
            f"{' or '.join(types)}. Change it, leave the column out by columns=, or name another table."
        )

    def _require_deduplicating_engine(self, table_info: ClickHouseTableInfo) -> None:
        """Require an engine and a sorting key that replace duplicates, and no other rows."""
        is_ordered = (
            set(table_info.sorting_key) == set(self.sink.key)
            if self.sink.key
            else set(table_info.sorting_key) >= set(OFFSET_COLUMNS)
        )
        has_version = not self.sink.key or VERSION in table_info.engine_with_settings.partition("ORDER BY")[0]
        if not table_info.engine.endswith("ReplacingMergeTree") or not is_ordered or not has_version:
            raise TargetUnavailable(
                f"{self.sink.name}: the table {self.database}.{self.table} is a {table_info.engine} ordered by "
                f"({', '.join(table_info.sorting_key)}): a retry would write duplicate rows. "
                f"It has to be {self.engine} ORDER BY ({', '.join(self.sorting_key)}); or name another table."
            )


def parse_sorting_key(text: str) -> tuple[str, ...]:
    """Parse a table's sorting key; some server versions write it in brackets.

    >>> parse_sorting_key("id, `odd one`"), parse_sorting_key("(id)")
    (('id', 'odd one'), ('id',))
    """
    bare = text[1:-1] if text.startswith("(") and text.endswith(")") else text
    return tuple(part.strip().strip("`") for part in bare.split(",") if part.strip())


def _unwrap_type(type_: str) -> tuple[str, bool]:
    """A type without LowCardinality and Nullable, and whether it is nullable."""
    is_nullable = False
    while (wrapped := _WRAPPED_TYPE.fullmatch(type_)) is not None:
        is_nullable |= wrapped[1] == "Nullable"
        type_ = wrapped[2]
    return type_, is_nullable
