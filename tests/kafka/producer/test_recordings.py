"""A recording is sent as its file has it: in order, each row once, unchanged."""

import json
import math
from datetime import UTC, datetime, timedelta
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

import headrace as hr
from headrace.kafka.producer.recordings import InvalidRecordingError, open_recording
from headrace.tiles.events.event_parser import parse_event, parse_timestamp_us

TAPS = hr.Stream(
    "taps",
    schema="id string, card string, n bigint, small smallint, x double, f float, ok boolean, "
    "at timestamp, seen timestamp",
    id="id",
    key="card",
    time="at",
    arrival="seen",
)
T0 = datetime(2013, 1, 1, tzinfo=UTC)
MOMENTS = st.datetimes(datetime(1, 1, 2), datetime(9999, 12, 30), timezones=st.just(UTC))  # noqa: DTZ001 - hypothesis adds the zone
TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=8)
ROWS = st.fixed_dictionaries(
    {
        "id": st.none() | TEXT,
        "card": st.none() | TEXT,
        "n": st.none() | st.integers(-(2**63), 2**63 - 1),
        "small": st.none() | st.integers(-(2**15), 2**15 - 1),
        "x": st.none() | st.floats(),
        "f": st.none() | st.floats(width=32),
        "ok": st.none() | st.booleans(),
        "at": st.none() | MOMENTS,
        "seen": MOMENTS,
    }
)
ARROW = pa.schema(
    {
        "id": pa.string(), "card": pa.large_string(), "n": pa.int64(), "small": pa.int32(), "x": pa.float64(),
        "f": pa.float32(), "ok": pa.bool_(), "at": pa.timestamp("us"), "seen": pa.timestamp("us", "UTC"),
    }
)  # fmt: skip


def event(number: int, **fields: Any) -> dict[str, Any]:
    return {"id": f"e{number}", "card": "c1", "at": T0, "seen": T0 + timedelta(seconds=number)} | fields


def written(folder: Path, rows: list[dict[str, Any]], schema: pa.Schema | None = None) -> Path:
    file = folder / "taps.parquet"
    pq.write_table(pa.Table.from_pylist(rows, schema=schema), file)
    return file


def sent(file: Path, order_by: str | None = None, **limits: Any) -> list[dict[str, Any]]:
    return [json.loads(one.value) for one in open_recording(TAPS, file, order_by).events(**limits)]


def us(moment: datetime | None) -> int | None:
    return None if moment is None else (moment - datetime(1970, 1, 1, tzinfo=UTC)) // timedelta(microseconds=1)


@given(st.lists(ROWS, max_size=8))
def test_the_gate_reads_from_what_is_sent_the_values_of_the_file(rows: list[dict[str, Any]]) -> None:
    in_order = sorted(rows, key=lambda row: row["seen"])
    naive = [row | {"at": row["at"] and row["at"].replace(tzinfo=None)} for row in rows]
    with TemporaryDirectory() as folder:
        events = list(open_recording(TAPS, written(Path(folder), naive, ARROW)).events())
    assert [one.due_us for one in events] == [us(row["seen"]) for row in in_order]
    assert [one.key for one in events] == [None if row["card"] is None else row["card"].encode() for row in in_order]
    for one, row in zip(events, in_order, strict=True):
        times = {"at": us(row["at"]), "seen": us(row["seen"])}
        expected = {name: (row | times)[name] for name in TAPS.schema.names}
        assert repr(parse_event(TAPS.schema, one.value)) == repr(expected)  # tells 0.0 from -0.0, and NaN is NaN


@pytest.mark.parametrize("rows", [[event(n) for n in (3, 1, 2)], [event(n) for n in (1, 2, 3)]])
def test_events_come_in_the_order_of_their_arrival_whatever_that_of_the_file(tmp_path: Path, rows: Any) -> None:
    assert [one["id"] for one in sent(written(tmp_path, rows))] == ["e1", "e2", "e3"]


def test_events_of_one_time_keep_the_order_of_the_file(tmp_path: Path) -> None:
    rows = [event(n, seen=T0 + timedelta(seconds=n % 2)) for n in range(10_000)]
    ids = [one["id"] for one in sent(written(tmp_path, rows))]
    assert ids == [f"e{n}" for n in range(0, 10_000, 2)] + [f"e{n}" for n in range(1, 10_000, 2)]


def test_another_column_may_say_the_order_and_is_not_sent_unless_it_is_of_the_schema(tmp_path: Path) -> None:
    rows = [event(n, taken=5 - n) for n in range(3)]
    found = sent(written(tmp_path, rows), order_by="taken")
    assert [one["id"] for one in found] == ["e2", "e1", "e0"]
    assert "taken" not in found[0]


def test_a_recording_may_begin_at_a_time_and_end_after_so_many(tmp_path: Path) -> None:
    file = written(tmp_path, [event(n) for n in range(5)])
    assert [one["id"] for one in sent(file, from_us=us(T0 + timedelta(seconds=2)), limit=2)] == ["e2", "e3"]
    assert sent(file, limit=0) == []


def test_rows_without_a_time_come_last_and_at_once(tmp_path: Path) -> None:
    found = list(open_recording(TAPS, written(tmp_path, [event(0, seen=None), event(1), event(2, seen=None)])).events())
    assert [json.loads(one.value)["id"] for one in found] == ["e1", "e0", "e2"]
    assert [one.due_us for one in found] == [us(T0 + timedelta(seconds=1)), None, None]


def test_times_keep_their_zone_and_lose_what_is_finer_than_a_microsecond(tmp_path: Path) -> None:
    schema = pa.schema({**{f.name: f.type for f in ARROW}, "at": pa.timestamp("ns", "+05:30"), "seen": pa.date32()})
    at = pa.scalar(1_500, pa.timestamp("ns", "+05:30"))
    table = pa.Table.from_pylist([event(1, at=None, seen=T0.date())], schema=schema)
    table = table.set_column(table.column_names.index("at"), "at", pa.array([at.value], pa.timestamp("ns", "+05:30")))
    pq.write_table(table, tmp_path / "taps.parquet")
    (found,) = sent(tmp_path / "taps.parquet")
    assert parse_timestamp_us(found["at"]) == 1
    assert parse_timestamp_us(found["seen"]) == us(T0)


def test_json_lines_are_sent_as_they_stand(tmp_path: Path) -> None:
    lines = ['{"id": 7.50, "card": "é", "seen": 2000, "more": [1]}', '{"seen":"1970-01-01T00:00:01Z","card":5}', "{}"]
    file = tmp_path / "taps.jsonl"
    file.write_text("\n".join(lines) + "\n")
    found = list(open_recording(TAPS, file).events())
    assert [one.value.decode() for one in found] == [lines[1], lines[0], lines[2]]
    assert [(one.due_us, one.key) for one in found] == [(1_000_000, b"5"), (2_000_000, "é".encode()), (None, None)]


def test_a_csv_is_read_as_the_schema_says(tmp_path: Path) -> None:
    file = tmp_path / "taps.csv"
    file.write_text("id,card,x,ok,at,seen\n007,,NaN,true,2013-01-01 00:00,1000\n1,c1,,,,1970-01-01T00:00:00Z\n")
    assert sent(file) == [
        {"id": "1", "card": "c1", "x": None, "ok": None, "at": None, "seen": "1970-01-01T00:00:00Z"},
        {"id": "007", "card": None, "x": "NaN", "ok": True, "at": "2013-01-01 00:00", "seen": "1000"},
    ]


@pytest.mark.parametrize(
    ("name", "content", "said"),
    [
        ("taps.parquet", b"no parquet", "cannot be read as events of 'taps'"),
        ("taps.xlsx", b"", "Give .parquet, .csv"),
        ("taps.jsonl", b'{"seen": 1}\n{"seen": ', "taps.jsonl:2: not JSON"),
        ("taps.jsonl", b"[1]\n", r"taps.jsonl:1: \[1\] is not an object"),
        ("taps.jsonl", b'{"seen": "soon"}\n{"seen": true}\n', "no row has a time in column 'seen'"),
        ("taps.csv", b"id,card,at\n1,2,3\n", "no column 'seen'. Rename one of id, card, at"),
        ("taps.csv", b"id,card,at,seen,n\n1,c,3,4,many\n", "cannot be read as events of 'taps'"),
    ],
)
def test_a_file_that_is_no_recording_is_refused_with_where_and_why(
    tmp_path: Path, name: str, content: bytes, said: str
) -> None:
    file = tmp_path / name
    file.write_bytes(content)
    with pytest.raises(InvalidRecordingError, match=said):
        open_recording(TAPS, file)


@pytest.mark.parametrize(("column", "value"), [("small", 40_000), ("n", 1.5), ("n", math.nan), ("ok", "maybe")])
def test_a_column_that_would_lose_something_is_refused_by_its_name(tmp_path: Path, column: str, value: Any) -> None:
    with pytest.raises(InvalidRecordingError, match=f"column '{column}' is .* and cannot be read as"):
        open_recording(TAPS, written(tmp_path, [event(1, **{column: value})]))


def test_a_file_that_is_not_there_is_said() -> None:
    with pytest.raises(InvalidRecordingError, match="There is no file 'gone"):
        open_recording(TAPS, Path("gone.parquet"))


def test_an_empty_recording_has_no_events(tmp_path: Path) -> None:
    assert sent(written(tmp_path, [], ARROW)) == []
