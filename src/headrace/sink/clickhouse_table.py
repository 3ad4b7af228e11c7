"""The table of a sink in ClickHouse: made where it is missing, and looked at before any row is sent.

key=                 ReplacingMergeTree(hr_version) ORDER BY key            one row of each key
no key, exactly once ReplacingMergeTree ORDER BY (hr_partition, hr_offset)  one row of each place
no key               MergeTree ORDER BY (hr_partition, hr_offset)           what is written again is there again

Rows that are one are one to whoever reads with FINAL, or once the server has merged them.
"""

import re
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass

from headrace.declare.sink import OFFSET, PARTITION, VERSION, Sink
from headrace.sink.clickhouse_http import literal, quoted
from headrace.sink.native import Held
from headrace.sink.writer import Away

# Which types hold every value of a column; of those that the server knows, the first is made.
HOLDING = {
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
OWN = {PARTITION: ("Int32",), OFFSET: ("Int64",)}
_WRAPPED = re.compile(r"(LowCardinality|Nullable)\((.*)\)")
_MICROSECONDS = re.compile(r"DateTime64\(6(, '[^']*')?\)")


@dataclass(frozen=True)
class Found:
    """What a server says of a table: its engine, what it is ordered by, and the types of its columns."""

    engine: str
    engine_with_settings: str
    sorting: tuple[str, ...]
    types: Mapping[str, str]


@dataclass(frozen=True)
class Wanted:
    """The table that a sink needs."""

    sink: Sink
    database: str
    table: str

    @property
    def name(self) -> str:
        """As statements have it."""
        return f"{quoted(self.database)}.{quoted(self.table)}"

    @property
    def columns(self) -> dict[str, tuple[str, ...]]:
        """By name, the types that will do."""
        own = {column.name: HOLDING[column.type] for column in self.sink.schema}
        return own | OWN | ({VERSION: ("UInt64",)} if self.sink.key else {})

    @property
    def sorting(self) -> tuple[str, ...]:
        return self.sink.key or (PARTITION, OFFSET)

    @property
    def engine(self) -> str:
        if self.sink.key:
            return f"ReplacingMergeTree({VERSION})"
        return "ReplacingMergeTree()" if self.sink.delivery == "exactly_once" else "MergeTree()"

    def where(self, column: str) -> str:
        """What finds it in a table of the server's own, which has tables' names in a column."""
        return f"database = {literal(self.database)} AND {column} = {literal(self.table)}"

    def statement(self, known: Collection[str]) -> str:
        """What makes it; `known` are the families of types that the server has."""
        columns = ", ".join(f"{quoted(name)} {self._made(name, types, known)}" for name, types in self.columns.items())
        order = ", ".join(map(quoted, self.sorting))
        return f"CREATE TABLE IF NOT EXISTS {self.name} ({columns}) ENGINE = {self.engine} ORDER BY ({order})"

    def added(self, found: Found) -> dict[str, tuple[str, ...]]:
        """The columns that the stream has gained since a sink made the table; none of a table of another's making."""
        if not OWN.keys() <= found.types.keys():
            return {}
        return {column.name: HOLDING[column.type] for column in self.sink.schema if column.name not in found.types}

    def addition(self, found: Found, known: Collection[str]) -> str:
        """What adds those; where another copy was quicker it is refused, and the table looked at again."""
        columns = (f"{quoted(name)} {self._made(name, types, known)}" for name, types in self.added(found).items())
        return f"ALTER TABLE {self.name} " + ", ".join(f"ADD COLUMN {column}" for column in columns)

    def fitted(self, found: Found) -> tuple[Held, ...]:
        """Its columns as they are found, or what is to be done about the table."""
        held = tuple(self._held(name, types, found.types.get(name)) for name, types in self.columns.items())
        if self.engine.startswith("Replacing"):
            self._require_rows_that_are_one(found)
        return held

    def _made(self, name: str, types: Iterable[str], known: Collection[str]) -> str:
        chosen = next(one for one in types if one.partition("(")[0] in known)
        in_utc = "DateTime64(6, 'UTC')" if chosen == "DateTime64(6)" else chosen
        return in_utc if name in self.sorting or name in (*OWN, VERSION) else f"Nullable({in_utc})"

    def _held(self, name: str, types: Iterable[str], found: str | None) -> Held:
        bare, is_nullable = _unwrapped(found or "")
        if _MICROSECONDS.sub("DateTime64(6)", bare) in types:
            return Held(name, bare, is_nullable)
        is_there = f"has {name!r} as {found}" if found else f"has no column {name!r} that takes values"
        raise Away(
            f"{self.sink.name}: the table {self.database}.{self.table} {is_there}, and it has to be "
            f"{' or '.join(types)}. Change it, leave the column out by columns=, or name another table."
        )

    def _require_rows_that_are_one(self, found: Found) -> None:
        """Rows that are written again have to meet those they were before, and no others."""
        is_ordered = set(found.sorting) == set(self.sink.key) if self.sink.key else set(found.sorting) >= set(OWN)
        has_version = not self.sink.key or VERSION in found.engine_with_settings.partition("ORDER BY")[0]
        if not found.engine.endswith("ReplacingMergeTree") or not is_ordered or not has_version:
            raise Away(
                f"{self.sink.name}: the table {self.database}.{self.table} is a {found.engine} ordered by "
                f"({', '.join(found.sorting)}): what is written again would be there twice. "
                f"It has to be {self.engine} ORDER BY ({', '.join(self.sorting)}); or name another table."
            )


def sorting_of(written: str) -> tuple[str, ...]:
    """The columns a table is ordered by, as servers write them: some of today have brackets around them.

    >>> sorting_of("id, `odd one`"), sorting_of("(id)")
    (('id', 'odd one'), ('id',))
    """
    bare = written[1:-1] if written.startswith("(") and written.endswith(")") else written
    return tuple(part.strip().strip("`") for part in bare.split(",") if part.strip())


def _unwrapped(type_: str) -> tuple[str, bool]:
    """A type without what only says how it is kept, and whether it takes nulls."""
    is_nullable = False
    while (wrapped := _WRAPPED.fullmatch(type_)) is not None:
        is_nullable |= wrapped[1] == "Nullable"
        type_ = wrapped[2]
    return type_, is_nullable
