"""What is made and what is expected, side by side."""

from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from typing import Any

from headrace.declare.derivation import Derived
from headrace.declare.schema import Kind
from headrace.scripts.acts import Row
from headrace.scripts.times import clock_text, time_us


def difference(stream: Derived, rows: Sequence[Row], expected: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    """What is made and not expected, and the other way round: one line each; none where they are alike."""
    left, missing = list(rows), []
    wanted = [_wanted(stream, one) for one in expected]
    for one in sorted(wanted, key=len, reverse=True):  # who names most columns has the least choice
        found = next((row for row in left if _fits(row, one)), None)
        if found is None:
            missing.append(one)
        else:
            left.remove(found)
    if left or missing:
        yield f"{stream.output}: {len(rows)} rows, where {len(expected)} are expected"
        yield from (f"  - expected, not made:  {_shown(stream, one)}" for one in missing)
        yield from (f"  + made, not expected:  {_shown(stream, one)}" for one in left)


def _wanted(stream: Derived, expected: Mapping[str, Any]) -> Row:
    """The columns of a row that are looked at, times in µs."""
    return {name: _value(stream, name, value) for name, value in expected.items()}


def _value(stream: Derived, name: str, value: Any) -> Any:
    kind = stream.schema.column(name, f"expect: {stream.output}").kind
    return time_us(value) if kind is Kind.TIMESTAMP and isinstance(value, str | datetime) else value


def _fits(row: Row, wanted: Row) -> bool:
    """As text as well: NaN is not NaN."""
    return all(row[name] == value or repr(row[name]) == repr(value) for name, value in wanted.items())


def _shown(stream: Derived, row: Row) -> str:
    return ", ".join(f"{name}={_text(stream, name, value)}" for name, value in row.items())


def _text(stream: Derived, name: str, value: Any) -> str:
    is_time = stream.schema.column(name, stream.output).kind is Kind.TIMESTAMP
    return clock_text(value) if is_time and value is not None else repr(value)
