"""The differences of actual and expected rows."""

from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from typing import Any

from headrace.declare.operations.derived_stream import DerivedStream
from headrace.declare.streams.schema import Kind
from headrace.testing.scripts.steps import OutputRow
from headrace.testing.scripts.times import format_script_time, parse_script_time


def describe_differences(
    stream: DerivedStream, rows: Sequence[OutputRow], expected: Sequence[Mapping[str, Any]]
) -> Iterator[str]:
    """The rows that are unexpected or missing, one line each; none if all match."""
    unexpected_rows, missing_rows = list(rows), []
    expected_rows = [_to_expected_row(stream, expected_row) for expected_row in expected]
    for one in sorted(
        expected_rows, key=len, reverse=True
    ):  # an expected row with the most columns matches the fewest rows
        matching_row = next((row for row in unexpected_rows if _is_match(row, one)), None)
        if matching_row is None:
            missing_rows.append(one)
        else:
            unexpected_rows.remove(matching_row)
    if unexpected_rows or missing_rows:
        yield f"{stream.output}: {len(rows)} rows, where {len(expected)} are expected"
        yield from (f"  - expected, missing:   {_format_row(stream, one)}" for one in missing_rows)
        yield from (f"  + actual, unexpected:  {_format_row(stream, one)}" for one in unexpected_rows)


def _to_expected_row(stream: DerivedStream, expected: Mapping[str, Any]) -> OutputRow:
    """The compared columns of a row, times in µs."""
    return {name: _to_expected_value(stream, name, value) for name, value in expected.items()}


def _to_expected_value(stream: DerivedStream, name: str, value: Any) -> Any:
    kind = stream.schema.column(name, f"expect: {stream.output}").kind
    return parse_script_time(value) if kind is Kind.TIMESTAMP and isinstance(value, str | datetime) else value


def _is_match(row: OutputRow, expected: OutputRow) -> bool:
    """Compares as text as well: NaN is not equal to NaN."""
    return all(row[name] == value or repr(row[name]) == repr(value) for name, value in expected.items())


def _format_row(stream: DerivedStream, row: OutputRow) -> str:
    return ", ".join(f"{name}={_format_value(stream, name, value)}" for name, value in row.items())


def _format_value(stream: DerivedStream, name: str, value: Any) -> str:
    is_time = stream.schema.column(name, stream.output).kind is Kind.TIMESTAMP
    return format_script_time(value) if is_time and value is not None else repr(value)
