"""Record headers: the bytes of each, in one table that the code, the docs and Spark share."""

import ast
import os
from pathlib import Path

import pytest

from headrace.kafka.headers import (
    ARRIVAL_HEADER,
    DEAD_LETTER_HEADERS,
    OFFSET_HEADER,
    PARTITION_HEADER,
    RECORD_HEADERS,
    TOPIC_HEADER,
    TRACEPARENT_HEADER,
    RecordHeader,
    dead_letter_headers,
    gate_header_sql,
)
from headrace.kafka.record import ConsumerRecord, Partition

ROOT = Path(__file__).parents[2]
SOURCES, PAGE = ROOT / "src" / "headrace", ROOT / "docs" / "how-it-works.md"
DOCS_HEADER = "| header | value | written by | meaning |\n| --- | --- | --- | --- |\n"
TRACE = b"00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"
VALUES = {"bigint": (42, b"42"), "string": ("café", b"caf\xc3\xa9"), "binary": (TRACE, TRACE)}
SPANS = SOURCES / "telemetry" / "otlp" / "spans.py"  # its names are attributes of spans


def record(*headers: tuple[str, bytes]) -> ConsumerRecord:
    return ConsumerRecord("payments.clean", 0, 7, 0, None, None, list(headers))


@pytest.mark.parametrize("header", RECORD_HEADERS, ids=lambda header: header.name)
def test_a_header_is_read_as_it_was_written(header: RecordHeader) -> None:
    value, written = VALUES[header.encoding.spark_type]
    assert header.write(value) == (header.name, written)
    assert header.read(record((header.name, written))) == value
    assert (header.read(record()), header.read_or(record(), value)) == (None, value)
    assert (header.write_optional(None), header.write_optional(value)) == ([], [(header.name, written)])


def test_of_several_the_first_counts() -> None:
    assert OFFSET_HEADER.read(record(ARRIVAL_HEADER.write(1), OFFSET_HEADER.write(2), OFFSET_HEADER.write(3))) == 2


@pytest.mark.parametrize("value", [b"", b"x", b"\xff", b"1.5"])
def test_what_is_no_number_counts_as_no_header(value: bytes) -> None:
    assert OFFSET_HEADER.read(record((OFFSET_HEADER.name, value))) is None
    assert OFFSET_HEADER.read_or(record((OFFSET_HEADER.name, value)), -1) == -1


def test_text_that_is_no_utf_8_and_a_trace_that_is_none_fail_nobody() -> None:
    assert TOPIC_HEADER.read(record((TOPIC_HEADER.name, b"t\xff"))) == "t�"
    assert TRACEPARENT_HEADER.read(record((TRACEPARENT_HEADER.name, b"<script>"))) is None


def test_spark_reads_a_header_where_the_gate_has_written_it() -> None:
    written = [name for name, _ in dead_letter_headers(Partition("payments", 3), 42, 5, "not-json: no")]
    assert written == [header.name for header in DEAD_LETTER_HEADERS]
    for index, header in enumerate(DEAD_LETTER_HEADERS):
        assert f"headers[{index}]" in gate_header_sql(header, DEAD_LETTER_HEADERS)
    with pytest.raises(ValueError, match="not in tuple"):
        gate_header_sql(PARTITION_HEADER)


def test_names_of_headers_stand_in_one_module() -> None:
    names = {header.name for header in RECORD_HEADERS if header.name.startswith("headrace.")}
    files = (file for file in SOURCES.rglob("*.py") if file not in (SOURCES / "kafka" / "headers.py", SPANS))
    found = {
        (node.value, file.relative_to(SOURCES).as_posix())
        for file in files
        for node in ast.walk(ast.parse(file.read_text()))
        if isinstance(node, ast.Constant) and node.value in names
    }
    assert found == set()


def table() -> str:
    rows = (f"| `{one.name}` | {one.encoding.name} | {one.writers} | {one.meaning} |\n" for one in RECORD_HEADERS)
    return DOCS_HEADER + "".join(rows)


def test_the_docs_have_a_row_of_every_header() -> None:
    before, header, rest = PAGE.read_text().partition(DOCS_HEADER)
    found, end, after = (header + rest).partition("\n\n")
    if os.environ.get("HEADRACE_GOLDEN") == "write":
        PAGE.write_text(before + table().rstrip("\n") + end + after)
    else:
        assert found + "\n" == table()
