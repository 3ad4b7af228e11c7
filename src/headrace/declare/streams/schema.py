"""A stream's columns, written as Spark DDL: "card string, amount double, at timestamp"."""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from enum import Enum
from functools import cached_property

from headrace.errors import DeclarationError


class Kind(Enum):
    """The kind of a value in expressions and aggregates, whatever its width."""

    STRING = "string"
    BOOLEAN = "boolean"
    INTEGER = "integer"
    DOUBLE = "double"
    TIMESTAMP = "timestamp"


KIND_OF_TYPE = {
    "string": Kind.STRING,
    "boolean": Kind.BOOLEAN,
    "tinyint": Kind.INTEGER,
    "smallint": Kind.INTEGER,
    "int": Kind.INTEGER,
    "bigint": Kind.INTEGER,
    "float": Kind.DOUBLE,
    "double": Kind.DOUBLE,
    "timestamp": Kind.TIMESTAMP,
}
TYPE_OF_KIND = {
    Kind.STRING: "string",
    Kind.BOOLEAN: "boolean",
    Kind.INTEGER: "bigint",
    Kind.DOUBLE: "double",
    Kind.TIMESTAMP: "timestamp",
}
_TYPE_ALIASES = {
    "integer": "int",
    "long": "bigint",
    "short": "smallint",
    "byte": "tinyint",
    "real": "float",
    "bool": "boolean",
}
_COLUMN_PATTERN = re.compile(r"\s*(?:`([^`]+)`|(\w+))\s*:?\s+(\w+)\s*", re.ASCII)


@dataclass(frozen=True)
class Column:
    """One column: its name and its Spark type."""

    name: str
    type: str

    @property
    def kind(self) -> Kind:
        return KIND_OF_TYPE[self.type]


@dataclass(frozen=True)
class Schema:
    """The columns of a stream, in declared order."""

    columns: tuple[Column, ...]

    def __iter__(self) -> Iterator[Column]:
        return iter(self.columns)

    def __contains__(self, name: object) -> bool:
        return any(column.name == name for column in self.columns)

    @cached_property
    def names(self) -> tuple[str, ...]:
        return tuple(column.name for column in self.columns)

    @cached_property
    def timestamp_names(self) -> frozenset[str]:
        """The names of its timestamp columns."""
        return frozenset(column.name for column in self.columns if column.kind is Kind.TIMESTAMP)

    def column(self, name: object, where: str) -> Column:
        """The column of a name; `where` names the setting in the error."""
        for column in self.columns:
            if column.name == name:
                return column
        raise DeclarationError(
            f"{where}: there is no column {name!r}. The schema's columns are {', '.join(self.names)}."
        )


def parse_schema(ddl: object, where: str) -> Schema:
    """The schema a DDL text declares.

    >>> parse_schema("card string, amount double", "payments").names
    ('card', 'amount')
    """
    if not isinstance(ddl, str) or not ddl.strip():
        raise DeclarationError(
            f'{where}: schema={ddl!r} is not Spark DDL. Write "name type, …", such as "card string, at timestamp".'
        )
    columns = tuple(_parse_column(part, where) for part in ddl.split(","))
    names = [column.name for column in columns]
    for name in names:
        if names.count(name) > 1:
            raise DeclarationError(f"{where}: the schema has two columns named {name!r}. Rename or remove one.")
    return Schema(columns)


def _parse_column(text: str, where: str) -> Column:
    match = _COLUMN_PATTERN.fullmatch(text)
    if match is None:
        raise DeclarationError(
            f'{where}: {text.strip()!r} in the schema is not "name type". Write each column as a name and a type.'
        )
    name, type_name = match[1] or match[2], match[3].lower()
    spark_type = _TYPE_ALIASES.get(type_name, type_name)
    if spark_type not in KIND_OF_TYPE:
        raise DeclarationError(
            f"{where}: column {name!r} has type {type_name!r}. Use one of {', '.join(KIND_OF_TYPE)}."
        )
    return Column(name, spark_type)
