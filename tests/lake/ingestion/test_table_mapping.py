"""The lake has every record that arrived once, with the types of plain Python, whatever is written twice."""

import struct
from pathlib import Path
from typing import Any

import pytest
from deltalake import DeltaTable
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

import headrace as hr
from headrace.embedded_servers.broker import EmbeddedBroker
from headrace.kafka.producer.producer import Producer
from headrace.kafka.topics import ensure_topics
from headrace.lake.event_reader import read_log_events, read_silver_events, read_table_rows
from headrace.lake.formats.table_format import LakeTableMissing
from headrace.lake.ingestion.ingest_step import TableIngester, new_write_session
from headrace.lake.ingestion.pending_offsets import LogRecreatedError
from headrace.lake.ingestion.table_mapping import (
    bronze_mapping,
    dead_letter_mapping,
    late_mapping,
    predictions_mapping,
    silver_mapping,
    tiles_mapping,
)
from headrace.lake.lake_table import IncompatibleTableError, LakeTable, TablePosition
from headrace.lake.lateness.lateness_measurement import measure_lateness
from tests.lake.batch_gate import SCHEMA, judged, land, new_stream, pass_gate, read_topic, send
from tests.spark.gate.test_gate import HOSTILE, written


def exact(value: Any) -> Any:
    """A value that equals only itself: NaN equals NaN, and -0.0 is not 0.0."""
    return struct.pack("<d", value) if isinstance(value, float) else value


def events_by_place(frame: DataFrame, stream: hr.Stream) -> dict[tuple[int, int], dict[str, Any]]:
    """Each row's fields and arrival time by its offset; fails on a repeated offset."""
    plain = frame.withColumn(stream.time, F.unix_micros(stream.time)).withColumn(
        "hr_arrival", F.unix_micros("hr_arrival")
    )
    rows = plain.collect()
    found = {(row.hr_partition, row.hr_offset): row for row in rows}
    assert len(found) == len(rows)
    return {
        place: {name: exact(row[name]) for name in (*stream.schema.names, "hr_arrival")} for place, row in found.items()
    }


def expected(broker: str, stream: hr.Stream, fate: str) -> dict[tuple[int, int], dict[str, Any]]:
    return {
        place: {name: exact(value) for name, value in (verdict.event or {}).items()} | {"hr_arrival": raw.appended_us}
        for place, (raw, verdict) in judged(broker, stream).items()
        if verdict.fate == fate
    }


def test_the_lake_is_the_log_after_replays_and_restarts(
    spark: SparkSession, broker: EmbeddedBroker, tmp_path: Path
) -> None:
    stream = new_stream(broker.address)
    duplicates = [written(id=f"d{number % 7}", n=number) for number in range(40)]
    send(broker.address, stream, [*HOSTILE, *duplicates])
    pass_gate(spark, broker.address, stream)
    land(spark, broker.address, tmp_path, silver_mapping(stream), most=200)
    pass_gate(spark, broker.address, stream, start=11)  # a crash: most of it comes again
    land(spark, broker.address, tmp_path, silver_mapping(stream), most=230)
    send(broker.address, stream, duplicates)
    pass_gate(spark, broker.address, stream, start=30)
    for landing in (bronze_mapping(stream), silver_mapping(stream), late_mapping(stream), dead_letter_mapping(stream)):
        land(spark, broker.address, tmp_path, landing, most=300)

    clean = events_by_place(read_silver_events(spark, tmp_path, stream), stream)
    assert clean == expected(broker.address, stream, "clean")
    assert clean == events_by_place(read_log_events(spark, broker.address, stream), stream)
    lates = events_by_place(read_table_rows(spark, tmp_path, late_mapping(stream)), stream)
    assert lates == expected(broker.address, stream, "late")
    assert clean
    assert lates
    check_dead(read_table_rows(spark, tmp_path, dead_letter_mapping(stream)), broker.address, stream)
    check_bronze(read_table_rows(spark, tmp_path, bronze_mapping(stream)), broker.address, stream)
    ids = {event["id"] for event in (*clean.values(), *lates.values())}
    assert measure_lateness(spark, tmp_path, stream, []).distribution.events == len(ids)


def check_dead(frame: DataFrame, broker: str, stream: hr.Stream) -> None:
    rows = frame.collect()
    wanted = {
        place: (raw.value, verdict.reason, stream.name)
        for place, (raw, verdict) in judged(broker, stream).items()
        if verdict.fate == "dead"
    }
    found = {(row.hr_partition, row.hr_offset): (row.value and bytes(row.value), row.reason, row.topic) for row in rows}
    assert {place: (value or None, *why) for place, (value, *why) in wanted.items()} == {
        place: (value or None, *why) for place, (value, *why) in found.items()
    }
    assert len(rows) == len(wanted) > 0


def check_bronze(frame: DataFrame, broker: str, stream: hr.Stream) -> None:
    rows = frame.withColumn("us", F.unix_micros("hr_arrival")).collect()
    found = {(row.hr_partition, row.hr_offset, row.us, bytes(row.key), row.value and bytes(row.value)) for row in rows}
    raw = read_topic(broker, stream.name)
    assert found == {(one.partition, one.offset, one.appended_us, one.key, one.value) for one in raw}
    assert len(rows) == len(raw)


def test_days_are_those_of_event_time_in_utc(spark: SparkSession, broker: EmbeddedBroker, tmp_path: Path) -> None:
    stream, tmp_path = new_stream(broker.address), tmp_path / "a lake of 100 %"
    moments = ["2025-12-31T23:59:59.999999Z", "2026-01-01T00:00:00Z", "2026-01-01T00:30:00+01:00"]
    send(broker.address, stream, [written(id=moment, at=moment) for moment in moments])
    pass_gate(spark, broker.address, stream)
    table = land(spark, broker.address, tmp_path, silver_mapping(stream))
    days = {row.id: row.hr_day.isoformat() for row in read_silver_events(spark, tmp_path, stream).collect()}
    assert days == dict(zip(moments, ["2025-12-31", "2026-01-01", "2025-12-31"], strict=True))
    assert {folder.name for folder in table.folder.glob("hr_day=*")} == {"hr_day=2025-12-31", "hr_day=2026-01-01"}


def test_only_replays_move_the_position_and_add_no_file(
    spark: SparkSession, broker: EmbeddedBroker, tmp_path: Path
) -> None:
    stream = new_stream(broker.address)
    send(broker.address, stream, [written(id=str(number)) for number in range(6)])
    pass_gate(spark, broker.address, stream)
    table = land(spark, broker.address, tmp_path, silver_mapping(stream))
    files, before = table.format.list_files(), table.positions([0, 1])
    pass_gate(spark, broker.address, stream)
    after = land(spark, broker.address, tmp_path, silver_mapping(stream))
    assert after.format.list_files() == files
    assert {number: (at.last_read, at.last_written) for number, at in before.items()} == {0: (2, 2), 1: (2, 2)}
    assert {number: (at.last_read, at.last_written) for number, at in after.positions([0, 1]).items()} == {
        0: (5, 2),
        1: (5, 2),
    }


def test_of_two_writers_the_second_is_refused(spark: SparkSession, broker: EmbeddedBroker, tmp_path: Path) -> None:
    stream = new_stream(broker.address)
    send(broker.address, stream, [written(id="a"), written(id="b")])
    table = LakeTable(tmp_path, bronze_mapping(stream))
    table.prepare()
    other = LakeTable(tmp_path, bronze_mapping(stream))
    other.positions([0])
    land(spark, broker.address, tmp_path, bronze_mapping(stream))
    with pytest.raises(Exception, match="Concurrent transaction"):
        other.commit([], table.positions([0]))


def test_a_changelog_lands_as_text(spark: SparkSession, broker: EmbeddedBroker, tmp_path: Path) -> None:
    stream = new_stream(broker.address)
    view = hr.features(stream, by="card")(type(f"{stream.name}View", (), {"taps": hr.count(windows="1h")}))
    ensure_topics(broker.address, [stream], [view])
    with Producer(broker.address) as producer:
        producer.send(view.topic, b'{"n":1}', key=b'{"e0":"\xc3\xa9"}', partition=1)
        producer.send(view.topic, b'{"n":2}', key=b'{"e0":"\xc3\xa9"}', partition=1)
    land(spark, broker.address, tmp_path, tiles_mapping(view))
    rows = read_table_rows(spark, tmp_path, tiles_mapping(view)).orderBy("hr_offset").collect()
    assert [(row.key, row.value, row.hr_partition) for row in rows] == [
        ('{"e0":"é"}', '{"n":1}', 1),
        ('{"e0":"é"}', '{"n":2}', 1),
    ]


def test_predictions_land_typed_and_what_is_none_does_not_stop_them(
    spark: SparkSession, broker: EmbeddedBroker, tmp_path: Path
) -> None:
    stream = new_stream(broker.address)
    view = hr.features(stream, by="card")(type(f"{stream.name}View", (), {"taps": hr.count(windows="1h")}))
    model = hr.Model(f"{stream.name}-fraud", on=stream, features=[view], file="fraud.onnx")
    ensure_topics(broker.address, [stream], [view], [model])
    at_us = 1_767_225_600_000_001
    told = {"score": 0.25, "decision": "block", "version": "7", "role": "champion", "source": "stream"}
    told |= {"features": {"taps_1h": 3}, "known": {view.name: [[3, at_us]]}, "degraded": ["stale"], "latency_ms": 2.5}
    told |= {f"{name}_us": at_us for name in ("event_time", "arrival", "read_at", "decided_at")}
    with Producer(broker.address) as producer:
        producer.send(model.predictions, {**told, "partition": 1, "offset": 42}, key="é1", partition=1)
        for hostile in (b"\xff{", b"[]", b'{"score": "high", "offset": 1e99, "arrival_us": "noon", "degraded": 3}'):
            producer.send(model.predictions, hostile, partition=1)
    land(spark, broker.address, tmp_path, predictions_mapping(model))
    moments = {name: F.unix_micros(name) for name in ("event_time", "arrival", "read_at", "decided_at")}
    rows = read_table_rows(spark, tmp_path, predictions_mapping(model)).withColumns(moments).orderBy("hr_offset")
    first, *others = rows.collect()
    expected = (first.id, first.score, first.decision, first.version, first.role, first.source)
    assert expected == ("é1", 0.25, "block", "7", "champion", "stream")
    assert (first.features, first.known) == ('{"taps_1h":3}', f'{{"{view.name}":[[3,{at_us}]]}}')
    assert (first.degraded, first.latency_ms, first.partition, first.offset) == ('["stale"]', 2.5, 1, 42)
    assert {first.event_time, first.arrival, first.read_at, first.decided_at} == {at_us}
    assert [(row.score, row.offset, row.arrival) for row in others] == [(None, None, None)] * 3


def test_a_column_that_is_added_is_null_in_older_files(
    spark: SparkSession, broker: EmbeddedBroker, tmp_path: Path
) -> None:
    stream = new_stream(broker.address)
    send(broker.address, stream, [written(id="old"), written(id="older")])
    pass_gate(spark, broker.address, stream)
    land(spark, broker.address, tmp_path, silver_mapping(stream))
    wider = hr.Stream(stream.name, schema=f"{SCHEMA}, shop string", id="id", key="card", time="at", late=stream.late)
    send(broker.address, wider, [written(id="new", shop="s1"), written(id="newer")])
    pass_gate(spark, broker.address, wider, start=1)
    table = land(spark, broker.address, tmp_path, silver_mapping(wider))
    shops = {row.id: row.shop for row in read_silver_events(spark, tmp_path, wider).collect()}
    assert shops == {"old": None, "older": None, "new": "s1", "newer": None}
    arrow = DeltaTable(table.folder).to_pyarrow_table(columns=["id", "shop"]).to_pylist()
    assert {row["id"]: row["shop"] for row in arrow} == shops


@pytest.mark.parametrize(
    ("schema", "said"),
    [
        (SCHEMA.replace("n bigint", "n string"), "column 'n' was bigint, is string"),
        (SCHEMA.replace("n bigint, ", ""), "column 'n' is gone"),
        (SCHEMA + ", `a=b` string", "character that tables do not allow"),
    ],
)
def test_what_older_files_contradict_is_refused(broker: EmbeddedBroker, tmp_path: Path, schema: str, said: str) -> None:
    stream = new_stream(broker.address)
    LakeTable(tmp_path, silver_mapping(stream)).prepare()
    changed = hr.Stream(stream.name, schema=schema, id="id", key="card", time="at")
    with pytest.raises(IncompatibleTableError, match=said):
        LakeTable(tmp_path, silver_mapping(changed)).prepare()


def test_another_log_of_the_same_name_is_refused(spark: SparkSession, broker: EmbeddedBroker, tmp_path: Path) -> None:
    stream = new_stream(broker.address)
    table = LakeTable(tmp_path, bronze_mapping(stream))
    table.prepare()
    send(broker.address, stream, [written()] * 4)
    table.commit([], {0: TablePosition(last_read=7)})
    with pytest.raises(LogRecreatedError, match=f"holds {stream.name}-0@7, but that log ends at 2"):
        TableIngester(new_write_session(spark), broker.address, table, 10).ingest()


def test_a_clean_log_made_anew_lands_only_what_is_new(
    spark: SparkSession, broker: EmbeddedBroker, tmp_path: Path
) -> None:
    stream = new_stream(broker.address)
    send(broker.address, stream, [written(id=str(number)) for number in range(8)])
    table = LakeTable(tmp_path, silver_mapping(stream))
    table.prepare()
    table.commit([], {0: TablePosition(last_read=70, last_written=1), 1: TablePosition(last_read=70, last_written=2)})
    pass_gate(spark, broker.address, stream)
    land(spark, broker.address, tmp_path, silver_mapping(stream))
    assert {row.id for row in read_silver_events(spark, tmp_path, stream).collect()} == {"4", "6", "7"}


def test_a_table_that_is_not_there_is_said(spark: SparkSession, broker: EmbeddedBroker, tmp_path: Path) -> None:
    with pytest.raises(LakeTableMissing, match="There is no table at"):
        read_silver_events(spark, tmp_path, new_stream(broker.address))


def test_a_table_without_events_is_empty(spark: SparkSession, broker: EmbeddedBroker, tmp_path: Path) -> None:
    stream = new_stream(broker.address)
    LakeTable(tmp_path, silver_mapping(stream)).prepare()
    events = read_silver_events(spark, tmp_path, stream)
    assert events.count() == 0
    assert events.dtypes == read_log_events(spark, broker.address, stream).dtypes
