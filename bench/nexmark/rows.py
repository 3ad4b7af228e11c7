"""Reads an engine's result from its topic, and finds where it differs from the expected one."""

import re
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from datetime import UTC, datetime
from typing import Any

import orjson

from bench.nexmark.oracle import Row
from headrace.kafka.record import ConsumerRecord

TIME = re.compile(r"\d{4}-\d{2}-\d{2}[T ]\d{2}:\d{2}:\d{2}([.]\d+)?(Z|[+-]\d{2}:\d{2})?")


def answered(records: Iterable[ConsumerRecord], columns: Sequence[str]) -> Counter[Row]:
    """The rows that stand in the end, and how often each: of records with a key the newest of each key."""
    last: dict[object, bytes | None] = {}
    for record in records:
        last[record.key or record.location] = record.value
    return Counter(_row(value, columns) for value in last.values() if value is not None)


def _row(value: bytes, columns: Sequence[str]) -> Row:
    said = orjson.loads(value)
    return tuple(plain(said.get(name)) for name in columns)


def plain(value: Any) -> Any:
    """Convert times to milliseconds, and leave other values as they are; a time without a zone is in UTC."""
    if not (isinstance(value, str) and TIME.fullmatch(value)):
        return value
    moment = datetime.fromisoformat(value)
    return round((moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp() * 1000)


def difference(found: Counter[Row], wanted: Sequence[Row], columns: Sequence[str], until_ms: int) -> str:
    """How a result differs from the expected one, in a sentence; empty if it is right.

    Ignores windows that end after `until_ms`: whether they end depends on the engine.
    """
    counts = ended_by(until_ms, columns)
    right = Counter(row for row in wanted if counts(row))
    given = Counter({row: times for row, times in found.items() if counts(row)})
    if given == right:
        return ""
    missing, more = right - given, given - right
    examples = [f"{name} {next(iter(rows))}" for name, rows in (("missing", missing), ("too many", more)) if rows]
    return f"{missing.total()} of {right.total()} rows missing, {more.total()} too many: {'; '.join(examples)}"


def ended_by(until_ms: int, columns: Sequence[str]) -> Callable[[Row], bool]:
    """A predicate: whether a row's window has ended by then; true for rows without `ends`."""
    if "ends" not in columns:
        return lambda _row: True
    place = columns.index("ends")
    return lambda row: bool(row[place] <= until_ms)
