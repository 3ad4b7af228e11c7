"""Maps the columns of a stream to the fields of a registered schema, in any format, or explains why it cannot."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

from headrace.declare.streams.encoding import RegisteredColumn
from headrace.declare.streams.schema import Column
from headrace.declare.streams.stream import Stream


@dataclass(frozen=True)
class SchemaField:
    """A field of a registered schema: its type in the terms of its format, and the column types that can read it.

    `conversions` are Spark types, each with its conversion: "as is", or the unit of a time.
    """

    name: str
    type_name: str
    conversions: Mapping[str, str]


@dataclass(frozen=True)
class SchemaColumnMapping:
    """A column, and its field; without one it is the column's default, or null."""

    column: Column
    field: SchemaField | None
    default: str | float | bool | None = None

    @property
    def conversion(self) -> str:
        return "" if self.field is None else self.field.conversions[self.column.type]


@dataclass(frozen=True)
class ColumnProblem:
    """A column that a schema cannot provide, and why."""

    column: str
    reason: str

    def __str__(self) -> str:
        return f"field {self.column}: {self.reason}"


def map_columns(stream: Stream, fields: Mapping[str, SchemaField]) -> list[SchemaColumnMapping | ColumnProblem]:
    """Each column of a stream, mapped to one of these fields."""
    registered_columns = (
        {column.name: column for column in stream.registered_schema.columns}
        if stream.registered_schema is not None
        else {}
    )
    parts_by_column = {column: part for part, column in stream.required_columns.items()}
    return [
        _map_column(column, fields, registered_columns.get(column.name), parts_by_column.get(column.name))
        for column in stream.schema
    ]


def _map_column(
    column: Column, fields: Mapping[str, SchemaField], registered: RegisteredColumn | None, part: str | None
) -> SchemaColumnMapping | ColumnProblem:
    names = (column.name, *(registered.aliases if registered is not None else ()))
    field = next((fields[name] for name in names if name in fields), None)
    if field is None:
        return _map_absent_column(column, registered, part)
    if column.type not in field.conversions:
        possible_types = " or ".join(field.conversions)
        remedy = f"declare it as {possible_types}" if possible_types else "leave it out of schema="
        return ColumnProblem(
            column.name, f"it is written as {field.type_name}, which is not read as {column.type}; {remedy}"
        )
    return SchemaColumnMapping(column, field)


def _map_absent_column(
    column: Column, registered: RegisteredColumn | None, part: str | None
) -> SchemaColumnMapping | ColumnProblem:
    default = None if registered is None else registered.default
    if default is None and part is not None:
        return ColumnProblem(column.name, f"it is not there, and is the stream's {part}=, which no event may leave out")
    if registered is not None and registered.is_required:
        return ColumnProblem(
            column.name, "it is not there, and has no default; give it one in the schema that is read with"
        )
    return SchemaColumnMapping(column, None, default)


def column_problems(mappings: Iterable[SchemaColumnMapping | ColumnProblem]) -> Iterator[ColumnProblem]:
    """The problems among mappings."""
    return (mapping for mapping in mappings if isinstance(mapping, ColumnProblem))
