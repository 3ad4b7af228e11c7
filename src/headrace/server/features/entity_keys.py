"""Entity keys as clients write them: a value, a list in the order of `by`, or an object by column."""

from collections.abc import Callable, Sequence
from typing import Any

import orjson

from headrace.aggregates.partial import Scalar
from headrace.declare.features.operands import REQUEST_PREFIX
from headrace.declare.features.view import View
from headrace.declare.streams.schema import Column, Kind
from headrace.server.http.responses import BadRequest, PayloadTooLarge
from headrace.tiles.events.event_parser import INTEGER_BITS, parse_timestamp_us
from headrace.tiles.finish import to_datetime
from headrace.tiles.tile import Entity

MAX_KEYS = 1000
MAX_SHOWN_CHARS = 80

ValueReader = Callable[[Any], Scalar | None]
KIND_EXAMPLES = {
    Kind.STRING: '"c1"',
    Kind.INTEGER: "42",
    Kind.BOOLEAN: "true",
    Kind.TIMESTAMP: '"2026-01-01T00:00:00Z"',
}


class KeyReader:
    """Parses the keys of one view strictly: a value that does not fit its column is rejected."""

    def __init__(self, view: View) -> None:
        self._view = view
        self._columns = [(column, value_reader(column)) for column in view.entity]
        self._single_reader = self._columns[0][1] if len(self._columns) == 1 else None
        self._request_readers = [
            (column.name.removeprefix(REQUEST_PREFIX), value_reader(column)) for column in view.request_columns
        ]
        self._timestamp_columns = [column.name for column in view.entity if column.kind is Kind.TIMESTAMP]

    def parse_entities(self, keys: Any) -> list[Entity]:
        """The entities of a request."""
        if not isinstance(keys, list):
            raise BadRequest(f'"keys" is {short_json(keys)}. Write a list: {{"keys": [{self._key_example()}]}}.')
        if len(keys) > MAX_KEYS:
            raise PayloadTooLarge(f"{len(keys)} keys in one request are too many. Ask for {MAX_KEYS} at a time.")
        return [self._parse_entity(index, key) for index, key in enumerate(keys)]

    def parse_request_values(self, request_values: dict[str, Any]) -> dict[str, Any]:
        """The fields of a request that the view's expressions read; other fields are ignored."""
        return {
            name: self._parse_request_value(name, read_value, request_values[name])
            for name, read_value in self._request_readers
            if request_values.get(name) is not None
        }

    def _parse_request_value(self, name: str, read_value: ValueReader, raw_value: Any) -> Scalar:
        value = read_value(raw_value)
        if value is None:
            raise BadRequest(
                f'"request" has {name}: {short_json(raw_value)}, which is not what {self._view.name} takes it for.'
            )
        return value

    def entity_to_dict(self, entity: Entity) -> dict[str, Any]:
        """An entity's values by column, as responses show them."""
        values_by_column: dict[str, Any] = dict(zip(self._view.by, entity, strict=True))
        for name in self._timestamp_columns:
            values_by_column[name] = to_datetime(values_by_column[name])
        return values_by_column

    def _parse_entity(self, index: int, key: Any) -> Entity:
        if self._single_reader is not None and (value := self._single_reader(key)) is not None:
            return (value,)
        return tuple(
            self._parse_key_value(index, column, read_value, raw_value)
            for (column, read_value), raw_value in zip(self._columns, self._split_key(index, key), strict=True)
        )

    def _split_key(self, index: int, key: Any) -> Sequence[Any]:
        if self._single_reader is not None:
            return (key,)
        names = self._view.by
        if isinstance(key, dict) and key.keys() == set(names):
            return [key[name] for name in names]
        if isinstance(key, list) and len(key) == len(names):
            return key
        raise BadRequest(
            f"keys[{index}] is {short_json(key)}, and {self._view.name} is kept by {', '.join(names)}. "
            f"Write {self._key_example()}, or an object with these names."
        )

    def _parse_key_value(self, index: int, column: Column, read_value: ValueReader, raw_value: Any) -> Scalar:
        value = read_value(raw_value)
        if value is None:
            raise BadRequest(
                f"keys[{index}] is {short_json(raw_value)}, and {column.name} is a {column.type}. "
                f"Write it as {KIND_EXAMPLES[column.kind]}."
            )
        return value

    def _key_example(self) -> str:
        examples = [KIND_EXAMPLES[column.kind] for column, _ in self._columns]
        return examples[0] if self._single_reader is not None else f"[{', '.join(examples)}]"


def parse_time_us(value: Any) -> int | None:
    """Microseconds from ISO 8601 or epoch milliseconds; None for anything else."""
    if type(value) is str:
        return parse_timestamp_us(value)
    return parse_timestamp_us(str(value)) if type(value) is int else None


def short_json(value: Any) -> str:
    """A value as an error shows it: its JSON, shortened."""
    try:
        text = orjson.dumps(value).decode()
    except TypeError:  # orjson reads deeper than it writes
        return f"a deeply nested {'list' if isinstance(value, list) else 'object'}"
    return text if len(text) <= MAX_SHOWN_CHARS else f"{text[:MAX_SHOWN_CHARS]}…"


def value_reader(column: Column) -> ValueReader:
    """The parser of a column's JSON values; it returns None for a value that does not fit."""
    match column.kind:
        case Kind.STRING:
            return lambda value: value if type(value) is str else None
        case Kind.BOOLEAN:
            return lambda written: written if type(written) is bool else None
        case Kind.DOUBLE:
            return lambda written: float(written) if type(written) in {int, float} else None
        case Kind.INTEGER:
            bound = 1 << (INTEGER_BITS[column.type] - 1)
            return lambda written: written if type(written) is int and -bound <= written < bound else None
        case _:
            return parse_time_us
