"""Change data capture: a database table as a stream of its changes, and as a table of its current rows.

customers = hr.Changes("customers", from_="postgres://reader@db/shop", table="public.customers", key="id",
                       schema="id bigint, country string, tier string")

    insert into customers …    ──▶ op c   its columns are those of the new row
    update customers set …     ──▶ op u   those of the new row; of the old one as before_country, before_tier …
    delete from customers …    ──▶ op d   those of the row that is gone
    rows there at the start    ──▶ op r

Without `from_` the topic is one that Debezium, or a compatible connector, already writes.
"""

import re
from dataclasses import dataclass, field
from urllib.parse import urlsplit

from headrace.declare.streams.external_source import ENV_PREFIX
from headrace.declare.streams.lookup_table import Lookup
from headrace.declare.streams.schema import Kind, Schema, parse_schema
from headrace.declare.streams.stream import Late, Stream
from headrace.errors import DeclarationError

OP, DELETED, CHANGED_AT, LSN, CHANGE, BEFORE_PREFIX = "op", "deleted", "changed_at", "lsn", "change", "before_"
CHANGE_COLUMNS = {OP: "string", DELETED: "boolean", CHANGED_AT: "timestamp", LSN: "bigint", CHANGE: "string"}
SCHEMES = ("postgres", "postgresql")
CLOCK_SKEW_ALLOWANCE = "1d"  # a database's clock may be wrong: that is no reason to lose a change
_TABLE_PATTERN = re.compile(r"[A-Za-z_][\w$]*\.[A-Za-z_][\w$]*", re.ASCII)


@dataclass(frozen=True)
class DatabaseTable:
    """A table of a PostgreSQL database: its address, or the variable that holds it, and its name with its schema."""

    url: str = field(repr=False)
    table: str


@dataclass(frozen=True, init=False)
class Changes(Stream):
    """The changes of a table in commit order, and its current rows.

    `schema` lists the columns of the table to capture; `key` is the column that identifies a row.
    """

    row_schema: Schema
    source: DatabaseTable | None

    def __init__(
        self,
        name: str,
        *,
        schema: str,
        key: str,
        from_: str | None = None,
        table: str | None = None,
        check: str | None = None,
        partitions: int = 1,
    ) -> None:
        where = f"Changes {name!r}"
        row_schema = parse_schema(schema, where)
        _require_free_names(row_schema, where)
        column_types = {column.name: column.type for column in row_schema} | CHANGE_COLUMNS
        column_types |= {BEFORE_PREFIX + column.name: column.type for column in row_schema}
        super().__init__(
            name,
            schema=", ".join(f"`{column}` {type_}" for column, type_ in column_types.items()),
            id=CHANGE,
            key=row_schema.column(key, f"{where}: key").name,
            time=CHANGED_AT,
            arrival=CHANGED_AT,  # the time of a commit is the arrival: however late it is read, it is not late
            late=Late("1h", then="drop"),
            check=check,
            ahead=CLOCK_SKEW_ALLOWANCE,
            partitions=partitions,
        )
        object.__setattr__(self, "row_schema", row_schema)
        object.__setattr__(self, "source", _parse_database_table(from_, table, partitions, where))

    @property
    def is_captured(self) -> bool:
        return True

    @property
    def latest(self) -> "LatestRows":
        """The current rows of the table."""
        return LatestRows(self)

    def __getitem__(self, column: str) -> Lookup:
        """A column of the current row of the view's own entity; `.of(…)` names another key."""
        self.row_schema.column(column, f"Changes {self.name!r}")
        return Lookup(self.latest, column)


@dataclass(frozen=True)
class LatestRows:
    """The newest row of each key of a captured table."""

    changes: Changes

    @property
    def label(self) -> str:
        return self.changes.name

    @property
    def identity(self) -> str:
        return self.changes.name

    @property
    def key(self) -> str:
        return self.changes.key

    @property
    def schema(self) -> Schema:
        return self.changes.row_schema

    @property
    def key_kind(self) -> Kind:
        return self.schema.column(self.key, self.label).kind


def _require_free_names(row_schema: Schema, where: str) -> None:
    reserved_names = [name for name in row_schema.names if name in CHANGE_COLUMNS or name.startswith(BEFORE_PREFIX)]
    if reserved_names:
        raise DeclarationError(
            f"{where}: a column is named {reserved_names[0]!r}, as a column of the change itself: "
            f"{', '.join(CHANGE_COLUMNS)} and "
            f"{BEFORE_PREFIX}…. Leave it out of schema=, or capture a copy of the table that names it otherwise."
        )


def _parse_database_table(url: str | None, table: str | None, partitions: int, where: str) -> DatabaseTable | None:
    if url is None and table is None:
        return None
    if url is None or table is None:
        raise DeclarationError(
            f"{where}: from_= and table= belong together. Write both, or neither for a topic that is filled already."
        )
    if not _TABLE_PATTERN.fullmatch(str(table)):
        raise DeclarationError(f'{where}: table={table!r} is no table. Write table="public.customers".')
    if partitions != 1:
        raise DeclarationError(f"{where}: changes are in the order of their commits. Leave partitions= out.")
    _require_address(url, where)
    return DatabaseTable(url, table)


def _require_address(url: object, where: str) -> None:
    remedy = f'Write from_="postgres://reader@db:5432/shop" and set PGPASSWORD, or from_="{ENV_PREFIX}SHOP_DB".'
    if not isinstance(url, str) or not url.startswith((ENV_PREFIX, *(f"{scheme}://" for scheme in SCHEMES))):
        raise DeclarationError(f"{where}: from_= is no address of a PostgreSQL. {remedy}")
    if ":" in urlsplit(url).netloc.rpartition("@")[0] or "password=" in url:
        raise DeclarationError(f"{where}: from_= has a password, and code is no place for one. {remedy}")
