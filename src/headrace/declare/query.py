"""Saved queries: a question in SQL that is asked again and again, and shown as a panel."""

from dataclasses import dataclass, field

from headrace.declare.durations import UNITS_US, duration_us
from headrace.declare.source_lines import Written, declaring_line
from headrace.errors import DeclarationError

OFTENEST_US = UNITS_US["s"]


@dataclass(frozen=True, init=False)
class Query:
    """A query over the app's tables, asked every so often while somebody looks."""

    name: str
    sql: str
    every_us: int
    written: Written = field(compare=False, repr=False)

    def __init__(self, name: str, sql: str, *, every: str = "5s") -> None:
        where = _where(name)
        values = {
            "name": name,
            "sql": _sql(sql, where),
            "every_us": _every_us(every, where),
            "written": declaring_line(),
        }
        for setting, value in values.items():
            object.__setattr__(self, setting, value)


def _where(name: object) -> str:
    if not isinstance(name, str) or not name.strip() or len(name) > 100 or not name.isprintable():
        raise DeclarationError(f'Query {name!r}: name it in at most 100 printable characters, such as "by country".')
    return f"Query {name!r}"


def _sql(sql: object, where: str) -> str:
    if not isinstance(sql, str) or not sql.strip():
        raise DeclarationError(f'{where}: {sql!r} is no SQL. Write a query, such as "from live.CardSpend".')
    return sql


def _every_us(every: str, where: str) -> int:
    every_us = duration_us(every, f"{where}: every")
    if every_us < OFTENEST_US:
        raise DeclarationError(f'{where}: every={every!r} is too often. Write "1s" or more.')
    return every_us
