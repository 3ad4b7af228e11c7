"""How the columns of a stream are read out of a registered schema, whatever its format, or why they cannot be."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

from headrace.declare.encoded import Column as RegisteredColumn
from headrace.declare.schema import Column
from headrace.declare.stream import Stream


@dataclass(frozen=True)
class Field:
    """A field of a registered schema: what it is in words of its format, and which columns it can be.

    `fits` are Spark types, each with how its values become that: "as is", or the unit of a time.
    """

    name: str
    called: str
    fits: Mapping[str, str]


@dataclass(frozen=True)
class Reading:
    """A column, and the field it is read from; without one it is the column's default, or null."""

    column: Column
    field: Field | None
    default: str | float | bool | None = None

    @property
    def how(self) -> str:
        return "" if self.field is None else self.field.fits[self.column.type]


@dataclass(frozen=True)
class Break:
    """A column that a schema cannot give, and why."""

    column: str
    why: str

    def __str__(self) -> str:
        return f"field {self.column}: {self.why}"


def readings(stream: Stream, fields: Mapping[str, Field]) -> list[Reading | Break]:
    """Each column of a stream as a schema with these fields gives it."""
    registered = {column.name: column for column in stream.subject.columns} if stream.subject is not None else {}
    parts = {column: part for part, column in stream.needed.items()}
    return [_reading(column, fields, registered.get(column.name), parts.get(column.name)) for column in stream.schema]


def _reading(
    column: Column, fields: Mapping[str, Field], registered: RegisteredColumn | None, part: str | None
) -> Reading | Break:
    names = (column.name, *(registered.aliases if registered is not None else ()))
    field = next((fields[name] for name in names if name in fields), None)
    if field is None:
        return _absent(column, registered, part)
    if column.type not in field.fits:
        takes = " or ".join(field.fits)
        remedy = f"declare it as {takes}" if takes else "leave it out of schema="
        return Break(column.name, f"it is written as {field.called}, which is not read as {column.type}; {remedy}")
    return Reading(column, field)


def _absent(column: Column, registered: RegisteredColumn | None, part: str | None) -> Reading | Break:
    default = None if registered is None else registered.default
    if default is None and part is not None:
        return Break(column.name, f"it is not there, and is the stream's {part}=, which no event may leave out")
    if registered is not None and registered.is_required:
        return Break(column.name, "it is not there, and has no default; give it one in the schema that is read with")
    return Reading(column, None, default)


def breaks(found: Iterable[Reading | Break]) -> Iterator[Break]:
    """Those that cannot be read."""
    return (one for one in found if isinstance(one, Break))
