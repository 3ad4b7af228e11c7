"""Saved queries: SQL that is run repeatedly and shown as a panel."""

from dataclasses import dataclass, field

from headrace.declare.durations import UNITS_US, duration_us
from headrace.declare.source_location import SourceLocation, locate_declaration
from headrace.errors import DeclarationError

SHORTEST_INTERVAL_US = UNITS_US["s"]


@dataclass(frozen=True, init=False)
class Query:
    """A query over the app's tables that runs periodically while somebody looks at its panel."""

    name: str
    sql: str
    every_us: int
    location: SourceLocation = field(compare=False, repr=False)

    def __init__(self, name: str, sql: str, *, every: str = "5s") -> None:
        where = _require_valid_name(name)
        values = {
            "name": name,
            "sql": _validate_sql(sql, where),
            "every_us": _parse_interval_us(every, where),
            "location": locate_declaration(),
        }
        for setting, value in values.items():
            object.__setattr__(self, setting, value)


def _require_valid_name(name: object) -> str:
    if not isinstance(name, str) or not name.strip() or len(name) > 100 or not name.isprintable():
        raise DeclarationError(f'Query {name!r}: name it in at most 100 printable characters, such as "by country".')
    return f"Query {name!r}"


def _validate_sql(sql: object, where: str) -> str:
    if not isinstance(sql, str) or not sql.strip():
        raise DeclarationError(f'{where}: {sql!r} is no SQL. Write a query, such as "from live.CardSpend".')
    return sql


def _parse_interval_us(every: str, where: str) -> int:
    every_us = duration_us(every, f"{where}: every")
    if every_us < SHORTEST_INTERVAL_US:
        raise DeclarationError(f'{where}: every={every!r} is too often. Write "1s" or more.')
    return every_us
