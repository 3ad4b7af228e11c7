"""JSON Schema's properties as columns; what a value really is, the gate looks at as it does at any JSON."""

import json
from collections.abc import Iterable, Mapping
from typing import Any

from headrace.declare.encoded import Column, Subject
from headrace.errors import HeadraceError
from headrace.log.schemas.readings import Field

_TEXT = {"string": "as is", "timestamp": "text"}
_FITS: dict[str, dict[str, str]] = {
    "string": _TEXT,
    "boolean": {"boolean": "as is"},
    "number": dict.fromkeys(("double", "float"), "as is"),
    "integer": dict.fromkeys(("bigint", "int", "smallint", "tinyint", "double", "float"), "as is")
    | {"timestamp": "millis"},
}
_TIME = {"timestamp": "text", "string": "as is"}
_ANYTHING = dict.fromkeys(
    ("string", "boolean", "tinyint", "smallint", "int", "bigint", "float", "double", "timestamp"), "as is"
)


class NotJsonSchema(HeadraceError):
    """A schema that no stream can be read with."""


def fields_of(text: str, names: Iterable[str]) -> Mapping[str, Field]:
    """The properties of a schema; one that allows others may have any of these names as well."""
    schema = _object(text)
    is_open = schema.get("additionalProperties", True) is not False
    others = {name: Field(name, "anything", _ANYTHING) for name in names} if is_open else {}
    return others | {name: _field(name, one) for name, one in schema.get("properties", {}).items()}


def subject_of(version: int, text: str) -> Subject:
    """The columns of a registered object, for a stream that leaves its schema out."""
    columns = []
    for name, one in _object(text).get("properties", {}).items():
        field = _field(name, one)
        if not field.fits:
            raise NotJsonSchema(
                f"Property {name!r} of the registered schema is {field.called}, and a column is a single value of "
                'string, boolean, a number or a time. Name the columns you want: schema="…".'
            )
        columns.append(Column(name, next(iter(field.fits))))
    return Subject(version, tuple(columns))


def _object(text: str) -> dict[str, Any]:
    try:
        schema = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise NotJsonSchema(f"The schema is not JSON: {error}. Register a JSON Schema.") from error
    if not isinstance(schema, dict) or schema.get("type") != "object":
        raise NotJsonSchema("The schema is of no JSON object. Events are objects: register one.")
    return schema


def _field(name: str, one: Any) -> Field:
    written = one.get("type") if isinstance(one, dict) else None
    kinds = [kind for kind in (written if isinstance(written, list) else [written]) if kind != "null"]
    kind = str(kinds[0]) if len(kinds) == 1 else "of several types"
    if kind == "string" and one.get("format") == "date-time":
        return Field(name, "string (date-time)", _TIME)
    return Field(name, kind, _ANYTHING if written is None and kind != "of several types" else _FITS.get(kind, {}))
