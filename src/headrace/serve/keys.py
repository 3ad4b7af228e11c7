"""Entities as clients write them: a value, a list in the order of `by`, or an object by column."""

from collections.abc import Callable, Sequence
from typing import Any

import orjson

from headrace.declare.operands import REQUEST
from headrace.declare.schema import Column, Kind
from headrace.declare.views import View
from headrace.serve.answers import BadRequest, TooLarge
from headrace.tiles.events import INTEGER_BITS, timestamp_us
from headrace.tiles.finish import moment
from headrace.tiles.tile import Entity, Scalar

MOST_KEYS = 1000
SHOWN = 80

Read = Callable[[Any], Scalar | None]
EXAMPLES = {Kind.STRING: '"c1"', Kind.INTEGER: "42", Kind.BOOLEAN: "true", Kind.TIMESTAMP: '"2026-01-01T00:00:00Z"'}


class KeyReader:
    """Reads the keys of one view, strictly: what does not fit its column is refused, never guessed."""

    def __init__(self, view: View) -> None:
        self._view = view
        self._columns = [(column, reader_of(column)) for column in view.entity]
        self._only = self._columns[0][1] if len(self._columns) == 1 else None
        self._requested = [(column.name.removeprefix(REQUEST), reader_of(column)) for column in view.requested]
        self._moments = [column.name for column in view.entity if column.kind is Kind.TIMESTAMP]

    def entities(self, written: Any) -> list[Entity]:
        """The entities a request asks for."""
        if not isinstance(written, list):
            raise BadRequest(f'"keys" is {shown(written)}. Write a list: {{"keys": [{self._example()}]}}.')
        if len(written) > MOST_KEYS:
            raise TooLarge(f"{len(written)} keys in one request are too many. Ask for {MOST_KEYS} at a time.")
        return [self._entity(index, key) for index, key in enumerate(written)]

    def request(self, written: dict[str, Any]) -> dict[str, Any]:
        """The fields of a request that the view's expressions read; others are passed over."""
        return {
            name: self._field(name, read, written[name])
            for name, read in self._requested
            if written.get(name) is not None
        }

    def _field(self, name: str, read: Read, part: Any) -> Scalar:
        value = read(part)
        if value is None:
            raise BadRequest(f'"request" has {name}: {shown(part)}, which is not what {self._view.name} takes it for.')
        return value

    def named(self, entity: Entity) -> dict[str, Any]:
        """An entity's values by column, as answers show them."""
        named: dict[str, Any] = dict(zip(self._view.by, entity, strict=True))
        for name in self._moments:
            named[name] = moment(named[name])
        return named

    def _entity(self, index: int, key: Any) -> Entity:
        if self._only is not None and (value := self._only(key)) is not None:
            return (value,)
        return tuple(
            self._value(index, column, read, part)
            for (column, read), part in zip(self._columns, self._parts(index, key), strict=True)
        )

    def _parts(self, index: int, key: Any) -> Sequence[Any]:
        if self._only is not None:
            return (key,)
        names = self._view.by
        if isinstance(key, dict) and key.keys() == set(names):
            return [key[name] for name in names]
        if isinstance(key, list) and len(key) == len(names):
            return key
        raise BadRequest(
            f"keys[{index}] is {shown(key)}, and {self._view.name} is kept by {', '.join(names)}. "
            f"Write {self._example()}, or an object with these names."
        )

    def _value(self, index: int, column: Column, read: Read, part: Any) -> Scalar:
        value = read(part)
        if value is None:
            raise BadRequest(
                f"keys[{index}] is {shown(part)}, and {column.name} is a {column.type}. "
                f"Write it as {EXAMPLES[column.kind]}."
            )
        return value

    def _example(self) -> str:
        examples = [EXAMPLES[column.kind] for column, _ in self._columns]
        return examples[0] if self._only is not None else f"[{', '.join(examples)}]"


def time_us(written: Any) -> int | None:
    """Microseconds of ISO 8601 or epoch milliseconds; None for anything else."""
    if type(written) is str:
        return timestamp_us(written)
    return timestamp_us(str(written)) if type(written) is int else None


def shown(written: Any) -> str:
    """A value as an error shows it: its JSON, not too long."""
    try:
        text = orjson.dumps(written).decode()
    except TypeError:  # orjson reads deeper than it writes
        return f"a deeply nested {'list' if isinstance(written, list) else 'object'}"
    return text if len(text) <= SHOWN else f"{text[:SHOWN]}…"


def reader_of(column: Column) -> Read:
    """What reads a value of JSON for a column; it gives None for what does not fit."""
    match column.kind:
        case Kind.STRING:
            return lambda written: written if type(written) is str else None
        case Kind.BOOLEAN:
            return lambda written: written if type(written) is bool else None
        case Kind.DOUBLE:
            return lambda written: float(written) if type(written) in {int, float} else None
        case Kind.INTEGER:
            half = 1 << (INTEGER_BITS[column.type] - 1)
            return lambda written: written if type(written) is int and -half <= written < half else None
        case _:
            return time_us
