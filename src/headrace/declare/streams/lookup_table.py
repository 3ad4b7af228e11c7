"""Lookup tables: a file of merchants, products or countries beside the app, joined when features are read.

merchants = hr.Table("merchants.parquet", key="merchant")

category = merchants["category"]                        of the view's own entity column `merchant`
last_one = merchants["category"].of(latest["7d"])       of a feature, a field of the request, or an expression
"""

from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from headrace.declare.app_paths import resolve_app_path
from headrace.declare.expressions import Expression, Field
from headrace.declare.features.operands import Leaf, Operand
from headrace.declare.streams.schema import Kind, Schema, parse_schema
from headrace.errors import DeclarationError, HeadraceError

ENTITY_PREFIX = "entity."
FILE_SUFFIXES = (".parquet", ".csv")


class TableBroken(HeadraceError):
    """A table's file is missing, unreadable, or lacks the declared columns."""


class LookupTable(Protocol):
    """Rows looked up by a key: `label` is their display name, `identity` distinguishes them from all other tables."""

    @property
    def label(self) -> str: ...
    @property
    def identity(self) -> str: ...
    @property
    def key(self) -> str: ...
    @property
    def schema(self) -> Schema: ...
    @property
    def key_kind(self) -> Kind: ...


@dataclass(frozen=True, init=False)
class Table:
    """A file with one row for each key, whose columns features look up by that key."""

    path: Path
    key: str
    schema: Schema

    def __init__(self, path: str, *, key: str, schema: str | None = None) -> None:
        where, file = f"Table {path!r}", resolve_app_path(path)
        if file.suffix not in FILE_SUFFIXES:
            raise DeclarationError(
                f"{where}: neither Parquet nor CSV. Give a file that ends in {' or '.join(FILE_SUFFIXES)}."
            )
        parsed_schema = _read_file_schema(file, where) if schema is None else parse_schema(schema, where)
        if parsed_schema.column(key, f"{where}: key").kind is Kind.DOUBLE:
            raise DeclarationError(
                f"{where}: key={key!r} is a double. Look rows up by a string, a whole number, a boolean or a timestamp."
            )
        object.__setattr__(self, "path", file)
        object.__setattr__(self, "key", key)
        object.__setattr__(self, "schema", parsed_schema)

    @property
    def label(self) -> str:
        return self.path.name

    @property
    def identity(self) -> str:
        return str(self.path)

    @property
    def key_kind(self) -> Kind:
        return self.schema.column(self.key, self.path.name).kind

    def __getitem__(self, column: str) -> "Lookup":
        """A column's value in the row of the view's own entity; `.of(…)` names another key."""
        self.schema.column(column, f"Table {self.path.name!r}")
        return Lookup(self, column)

    def read(self) -> dict[str, list[Any]]:
        """The current columns of the file: None for null, times in µs."""
        from headrace.declare.streams.table_files import read_columns  # noqa: PLC0415 - pyarrow, for apps with tables alone

        return read_columns(self.path, self.schema)


@dataclass(frozen=True, eq=False)
class LookupLeaf(Leaf):
    """The value of a table's column in the row of a key."""

    table: LookupTable
    column: str
    key: Leaf | Expression


class Lookup(Operand):
    """A table's column, as an operand."""

    def __init__(self, table: LookupTable, column: str) -> None:
        super().__init__(LookupLeaf(table, column, Field(ENTITY_PREFIX + table.key)))
        self._table, self._column = table, column

    def of(self, key: Operand | str) -> Operand:
        """The same column by another key: a feature, a field of the request, or a column of the view's entity."""
        if isinstance(key, Operand):
            return Operand(LookupLeaf(self._table, self._column, key.node), key.request_columns)
        return Operand(LookupLeaf(self._table, self._column, Field(f"{ENTITY_PREFIX}{key}")))


def _read_file_schema(file: Path, where: str) -> Schema:
    from headrace.declare.streams.table_files import read_file_schema  # noqa: PLC0415 - pyarrow, only for apps with tables

    if not file.is_file():
        raise DeclarationError(
            f'{where}: there is no file {str(file)!r}. Put it there, or give its columns: schema="merchant string, …".'
        )
    return read_file_schema(file, where)
