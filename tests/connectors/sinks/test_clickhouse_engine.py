"""The current ClickHouse engine, in-process: how it reads our blocks, and how it describes its tables."""

import struct
from collections.abc import Iterator
from pathlib import Path
from tempfile import NamedTemporaryFile
from typing import Any

import orjson
import pytest

import headrace as hr
from headrace.connectors.sinks.clickhouse.http_client import ClickHouseClient, parse_error
from headrace.connectors.sinks.sink_part import create_sink_writer
from headrace.connectors.sinks.targets import clickhouse
from headrace.connectors.sinks.writer import RowsRejected, SinkConfig, SinkWriter, TargetUnavailable
from headrace.declare.sinks.sink import Sink
from tests.connectors.sinks.gate_output import event
from tests.connectors.sinks.test_offset_fencing import rows_of, stream

pytestmark = pytest.mark.faults
OWN = """CREATE TABLE own (id LowCardinality(String), card LowCardinality(Nullable(String)), amount Float64, big Bool,
    n Int64, at DateTime64(6, 'Europe/Paris'), hr_partition Int32, hr_offset Int64, CONSTRAINT few CHECK amount < 1000)
    ENGINE = ReplacingMergeTree ORDER BY (id, hr_partition, hr_offset)"""


class Engine(ClickHouseClient):
    """Executes a client's requests on the engine; its errors have the texts that a server sends."""

    session: Any

    def execute(self, statement: str, rows: bytes | None = None) -> bytes:
        with NamedTemporaryFile(suffix=".native") as file:
            Path(file.name).write_bytes(rows or b"")
            if rows is not None:
                statement = statement.replace("FORMAT Native", f"FROM INFILE '{file.name}' FORMAT Native")
            try:
                return bytes(self.session.query(statement, "JSONCompact").bytes())
            except Exception as failure:
                raise parse_error(500, str(failure)) from failure


@pytest.fixture
def engine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Engine]:
    session = pytest.importorskip("chdb.session", reason="chdb is not installed: pip install chdb (180 MB)")
    monkeypatch.setenv("CLICKHOUSE_URL", "http://inside/default")
    monkeypatch.setattr(clickhouse, "Server", Engine)
    Engine.session = session.Session(str(tmp_path))
    yield Engine("http://inside/default")
    Engine.session.close()


def writer(table: str, **how: Any) -> SinkWriter:
    sink = Sink(f"to {table}", of=stream, to=hr.ClickHouse("env:CLICKHOUSE_URL", table=table), **how)
    return create_sink_writer(sink, SinkConfig("nowhere"))


def asked(engine: Engine, question: str) -> list[list[Any]]:
    rows: list[list[Any]] = orjson.loads(engine.ask(question))["data"]
    return rows


def test_tables_are_made_with_times_and_booleans_and_hold_each_row_once(engine: Engine) -> None:
    for table, how in {"places": {"delivery": "exactly_once"}, "keyed": {"key": "card"}}.items():
        copies = writer(table, **how)
        odd = {"big": None, "at": "1969-12-31T23:59:59.999999Z"}
        rows = rows_of(copies, event(1, amount=5e-324, **odd), event(2, amount=0.1 + 0.2))
        for some in (rows, rows[::-1], rows[:1]):
            copies.write(some)
        found = asked(engine, f"SELECT id, reinterpretAsUInt64(assumeNotNull(amount)), big, at FROM {table} FINAL")
        bits = struct.unpack("<Q", struct.pack("<d", 0.1 + 0.2))[0]
        assert sorted(found) == [
            ["e1", 1, None, "1969-12-31 23:59:59.999999"],
            ["e2", bits, False, "2026-01-01 00:00:02.250000"],
        ]


def test_a_table_of_ones_own_is_taken_its_constraints_park_and_a_change_is_never_misread(engine: Engine) -> None:
    engine.ask(OWN)
    copies = writer("own", delivery="exactly_once")
    copies.write(rows_of(copies, event(1)))
    assert asked(engine, "SELECT id, card, toUnixTimestamp64Micro(at) FROM own") == [["e1", "c1", 1767225601250000]]
    with pytest.raises(RowsRejected, match=r"^rejected: Constraint `few` .* is violated at row 1\. Expression: [^=]*$"):
        copies.write(rows_of(copies, event(2, amount=5000.0), begin=1))
    engine.ask("ALTER TABLE own MODIFY COLUMN n String")
    copies.write(rows_of(copies, event(3), begin=2))
    assert asked(engine, "SELECT n FROM own FINAL ORDER BY n") == [["1"], ["3"]]
    with pytest.raises(TargetUnavailable, match="has 'n' as String, and it has to be Int64"):
        copies.open()
    with pytest.raises(RowsRejected, match="beyond-calendar"):
        writer("far").write(rows_of(copies, event(4, at="1800-01-01T00:00:00Z")))
