"""Targets that store offsets: rows and offsets in one transaction, and neither from a fenced writer."""

from collections.abc import Callable
from itertools import count
from pathlib import Path
from typing import Any

import orjson
import pytest

import headrace as hr
from bench.postgres import OwnPostgres
from headrace.connectors.sinks.sink_part import create_sink_writer
from headrace.connectors.sinks.sink_rows import SinkRow, SinkRowReader
from headrace.connectors.sinks.writer import OffsetMove, RowsRejected, SinkConfig, SinkFencedError, SinkWriter
from headrace.declare.sinks.sink import Sink
from headrace.declare.sinks.target import Target
from headrace.kafka.consumers.external_offset_consumer import ExternalOffset
from headrace.kafka.headers import OFFSET_HEADER
from headrace.kafka.record import ConsumerRecord, Partition
from tests.connectors.sinks.gate_output import SCHEMA, event
from tests.connectors.sinks.new_targets import new_target
from tests.connectors.sinks.target_reader import Event, in_delta, in_iceberg, in_postgres, in_redis
from tests.servers import OwnRedis

stream = hr.Stream("fenced", schema=SCHEMA, id="id", key="card", time="at")
AT, OTHER = Partition(stream.clean, 0), Partition(stream.clean, 1)
Kept = tuple[Target, Callable[[], list[Event]]]
_numbers = count()


@pytest.fixture(params=["postgres", "redis", "delta", "iceberg"])
def kept(request: pytest.FixtureRequest, tmp_path: Path) -> Kept:
    """A new target that stores offsets, and a reader of it."""
    name, kind = f"fenced_{next(_numbers)}", request.param
    target = new_target(kind, name, request)
    if kind == "postgres":
        server: OwnPostgres = request.getfixturevalue("postgres")
        return target, lambda: in_postgres(server, name)
    if kind == "redis":
        cache: OwnRedis = request.getfixturevalue("own_redis")
        return target, lambda: in_redis(cache.url, name)
    return target, lambda: in_iceberg(tmp_path, name) if kind == "iceberg" else in_delta(tmp_path / name)


def copies(target: Target, key: str | None = "id") -> tuple[SinkWriter, SinkWriter]:
    """Two that write for one sink, and do not know of each other."""
    sink = Sink(f"fenced {next(_numbers)}", of=stream, to=target, key=key, delivery="exactly_once")
    return create_sink_writer(sink, SinkConfig("nowhere")), create_sink_writer(sink, SinkConfig("nowhere"))


def rows_of(writer: SinkWriter, *events: Event, begin: int = 0, partition: int = 0) -> list[SinkRow]:
    reader, place, rows = SinkRowReader(writer.sink), ExternalOffset(begin, begin - 1), list[SinkRow]()
    for offset, one in enumerate(events, begin):
        headers = [OFFSET_HEADER.write(offset)]
        row, place = reader.read_row(
            ConsumerRecord(stream.clean, partition, offset, 0, b"k", orjson.dumps(one), headers), place
        )
        assert row is not None
        rows.append(row)
    return rows


def ids(rows: list[Event]) -> list[str]:
    return sorted(row["id"] for row in rows)


def test_a_copy_that_comes_late_writes_nothing_and_goes_on_from_where_the_other_is(kept: Kept) -> None:
    target, read = kept
    first, second = copies(target)
    assert (
        first.read_offsets([AT, OTHER])
        == second.read_offsets([AT, OTHER])
        == {AT: ExternalOffset(), OTHER: ExternalOffset()}
    )
    rows = rows_of(first, *map(event, range(4)))
    first.write(rows[:3], {AT: OffsetMove(ExternalOffset(), rows[2].offset_after)})
    with pytest.raises(SinkFencedError, match="another copy of the sink"):
        second.write(rows, {AT: OffsetMove(ExternalOffset(), rows[3].offset_after)})
    assert ids(read()) == ["e0", "e1", "e2"]
    there = second.read_offsets([AT, OTHER])
    assert there == {AT: ExternalOffset(3, 2), OTHER: ExternalOffset()}
    second.write(rows[3:], {AT: OffsetMove(there[AT], rows[3].offset_after)})
    with pytest.raises(SinkFencedError):
        first.write(rows[3:], {AT: OffsetMove(rows[2].offset_after, rows[3].offset_after)})
    assert ids(read()) == ["e0", "e1", "e2", "e3"]


@pytest.mark.parametrize("key", [None, "id"])
@pytest.mark.parametrize("late_rows", [4, 0])
def test_of_two_copies_that_commit_to_iceberg_at_once_one_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, key: Any, late_rows: int
) -> None:
    first, second = copies(hr.Iceberg(str(tmp_path), table="raced"), key=key)
    first.read_offsets([AT])
    second.read_offsets([AT])
    rows, commit = rows_of(first, *map(event, range(4))), second._commit

    def commit_late(*what: Any) -> None:
        first.write(rows[:3], {AT: OffsetMove(ExternalOffset(), rows[2].offset_after)})
        commit(*what)

    monkeypatch.setattr(second, "_commit", commit_late)
    with pytest.raises(SinkFencedError, match="another copy of the sink"):
        second.write(rows[:late_rows], {AT: OffsetMove(ExternalOffset(), ExternalOffset(1, 0))})
    assert ids(in_iceberg(tmp_path, "raced")) == ["e0", "e1", "e2"]
    assert second.read_offsets([AT]) == {AT: ExternalOffset(3, 2)}


def test_copies_of_other_partitions_are_not_in_each_others_way(kept: Kept) -> None:
    target, read = kept
    first, second = copies(target)
    first.read_offsets([AT])
    second.read_offsets([OTHER])
    mine, others = rows_of(first, event(1)), rows_of(second, event(2), partition=1)
    first.write(mine, {AT: OffsetMove(ExternalOffset(), mine[0].offset_after)})
    second.write(others, {OTHER: OffsetMove(ExternalOffset(), others[0].offset_after)})
    assert ids(read()) == ["e1", "e2"]
    assert first.read_offsets([AT, OTHER]) == {AT: ExternalOffset(1, 0), OTHER: ExternalOffset(1, 0)}


def test_places_move_without_rows(kept: Kept) -> None:
    target, read = kept
    writer, _ = copies(target)
    writer.read_offsets([AT])
    writer.write([], {AT: OffsetMove(ExternalOffset(), ExternalOffset(7, 5))})
    assert writer.read_offsets([AT]) == {AT: ExternalOffset(7, 5)}
    assert read() == []


def test_of_one_key_the_later_place_stays_whatever_is_written_last(kept: Kept) -> None:
    target, read = kept
    writer, _ = copies(target, key="card")
    old, new = rows_of(writer, event(1, card="c1"), event(2, card="c1"))
    writer.write([new])
    writer.write([old])
    assert ids(read()) == ["e2"]
    (newer,) = rows_of(writer, event(3, card="c1"), begin=9)
    writer.write([newer])
    assert ids(read()) == ["e3"]


def test_what_postgres_rejects_it_has_none_of_and_no_place_has_moved(
    postgres: OwnPostgres, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PG_URL", postgres.url)
    writer, _ = copies(hr.Postgres("env:PG_URL", table="rejecting"))
    writer.read_offsets([AT])
    rows = rows_of(writer, event(1), event(2, id="with\x00nul"))
    with pytest.raises(RowsRejected, match="NUL"):
        writer.write(rows, {AT: OffsetMove(ExternalOffset(), rows[1].offset_after)})
    assert in_postgres(postgres, "rejecting") == []
    assert writer.read_offsets([AT]) == {AT: ExternalOffset()}
    writer.write(rows[:1], {AT: OffsetMove(ExternalOffset(), rows[0].offset_after)})
    assert ids(in_postgres(postgres, "rejecting")) == ["e1"]


def test_rows_are_not_there_where_the_places_could_not_be_moved(
    postgres: OwnPostgres, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PG_URL", postgres.url)
    writer, _ = copies(hr.Postgres("env:PG_URL", table="halfway"))
    writer.read_offsets([AT])
    postgres.ask(
        "CREATE FUNCTION never() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RAISE 'not now'; END $$;"
        "CREATE TRIGGER never BEFORE UPDATE ON headrace_offsets FOR EACH ROW EXECUTE FUNCTION never()"
    )
    rows = rows_of(writer, event(1))
    try:
        with pytest.raises(RowsRejected, match="not now"):
            writer.write(rows, {AT: OffsetMove(ExternalOffset(), rows[0].offset_after)})
    finally:
        postgres.ask("DROP TRIGGER never ON headrace_offsets")
    assert in_postgres(postgres, "halfway") == []


@pytest.mark.parametrize(("key", "stays"), [("id", 1.0), ("card", 2.0)])
def test_of_one_key_in_one_batch_the_first_event_or_the_last_of_an_entity_stays(
    kept: Kept, key: str, stays: float
) -> None:
    target, read = kept
    writer, _ = copies(target, key=key)
    writer.write(rows_of(writer, event(1, amount=1.0), event(1, amount=2.0)))
    assert [row["amount"] for row in read()] == [stays]
