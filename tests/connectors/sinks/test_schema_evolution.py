"""A stream gains a column and loses it again: its sinks continue, and older rows have null in it."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from deltalake import DeltaTable

import headrace as hr
from bench.postgres import OwnPostgres
from headrace.connectors.sinks.sink_part import create_sink_writer
from headrace.connectors.sinks.targets.iceberg import CATALOG_FILE, open_catalog
from headrace.connectors.sinks.writer import SinkConfig, SinkWriter, TargetUnavailable
from headrace.declare.sinks.sink import Sink
from headrace.declare.sinks.target import Target
from headrace.declare.streams.stream import Stream
from tests.clickhouse import OwnClickHouse
from tests.connectors.sinks.gate_output import SCHEMA, event
from tests.connectors.sinks.new_targets import new_target
from tests.connectors.sinks.test_offset_fencing import rows_of

GROWN = Stream("grown", schema=f"{SCHEMA}, extra string, Weight double", id="id", key="card", time="at")
FORMER = Stream("grown", schema=SCHEMA, id="id", key="card", time="at")
NAMES = ("id", "extra", "Weight")
Grown = tuple[Target, Callable[[], list[tuple[Any, ...]]]]


def _of_rows(rows: list[dict[str, Any]]) -> list[tuple[Any, ...]]:
    return [tuple(row[name] for name in NAMES) for row in rows]


@pytest.fixture(params=["postgres", "delta", "iceberg", "clickhouse"])
def grown(request: pytest.FixtureRequest, tmp_path: Path) -> Grown:
    """A table, and the columns of its rows that this is about."""
    name, kind = f"grown_{'keyed' if 'keyed' in request.node.name else 'plain'}", request.param
    target = new_target(kind, name, request)
    if kind == "postgres":
        server: OwnPostgres = request.getfixturevalue("postgres")
        return target, lambda: server.ask(f'SELECT id, extra, "Weight" FROM {name}')
    if kind == "clickhouse":
        house: OwnClickHouse = request.getfixturevalue("clickhouse")
        return target, lambda: _of_rows(house.ask(f"SELECT {', '.join(NAMES)} FROM {name} FINAL"))
    if kind == "iceberg":
        return target, lambda: _of_rows(_iceberg_rows(tmp_path, name))
    return target, lambda: _of_rows(DeltaTable(tmp_path / name).to_pyarrow_table().to_pylist())


def _iceberg_rows(folder: Path, name: str) -> list[dict[str, Any]]:
    catalogue = open_catalog(folder / CATALOG_FILE)
    try:
        rows: list[dict[str, Any]] = catalogue.load_table(f"default.{name}").scan().to_arrow().to_pylist()
    finally:
        catalogue.close()
    return rows


def _writer(stream: Stream, target: Target, **how: Any) -> SinkWriter:
    return create_sink_writer(Sink("grown", of=stream, to=target, **how), SinkConfig("nowhere"))


@pytest.mark.parametrize("key", ["id", None], ids=["keyed", "plain"])
def test_a_new_column_is_added_to_the_table_and_stays_when_the_stream_has_it_no_more(
    grown: Grown, key: str | None
) -> None:
    target, read = grown
    if key is None and target.kind == "postgres":
        key = "card"  # PostgreSQL's tables have one always; each card has one row here
    how = {"key": key, "delivery": "exactly_once"}
    first, second, third = _writer(FORMER, target, **how), _writer(GROWN, target, **how), _writer(FORMER, target, **how)
    first.write(rows_of(first, event(1)))
    second.write(rows_of(second, event(2, extra="new", Weight=2.5), begin=1))
    third.write(rows_of(third, event(3), begin=2))
    for writer in (first, second, third):
        writer.close()
    assert sorted(read()) == [("e1", None, None), ("e2", "new", 2.5), ("e3", None, None)]


def test_a_table_that_has_the_column_with_another_type_is_refused(tmp_path: Path) -> None:
    target = hr.Delta(str(tmp_path / "table"))
    first = _writer(FORMER, target)
    first.write(rows_of(first, event(1)))
    odd = Stream("grown", schema=SCHEMA.replace("n bigint", "n string"), id="id", key="card", time="at")
    second = _writer(odd, target)
    with pytest.raises(TargetUnavailable, match="has 'n' as int64, and it is string"):
        second.open()


def test_a_table_that_no_sink_made_is_not_changed(tmp_path: Path) -> None:
    folder = tmp_path / "table"
    DeltaTable.create(folder, pa.schema([("id", pa.string())]))
    with pytest.raises(TargetUnavailable, match="has no column 'card'"):
        _writer(FORMER, hr.Delta(str(folder))).open()
    assert [field.name for field in DeltaTable(folder).schema().fields] == ["id"]
