"""Data frames are fed row by row, as `headrace replay` would send them from Parquet."""

from collections.abc import Callable
from datetime import UTC, date, datetime
from pathlib import Path
from typing import Any

import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.parquet
import pytest

import headrace as hr
from headrace.kafka.producer.recordings import InvalidRecordingError, open_recording
from headrace.testing import UndeclaredField
from headrace.testing.arrivals import to_arrival
from headrace.testing.data_frames import UnfitDataFrame, to_table_rows
from headrace.testing.event_records import to_raw_records
from tests.testing.hostile import AT, TAPS, CardTaps, tap

AT_0 = datetime(2026, 1, 1, tzinfo=UTC)
COLUMNS: dict[str, list[Any]] = {
    "id": ["t1", "t2", "t3", None],
    "card": ["c1", "c1", "c2", "c2"],
    "amount": [1.0, None, 3.0, 4.0],
    "n": [1, 2, None, 4],
    "at": [AT_0] * 4,
}
FRAMES: dict[str, Callable[[dict[str, list[Any]]], Any]] = {
    "pandas": pd.DataFrame,
    "pandas with an index": lambda columns: pd.DataFrame(columns, index=[7, 5, 3, 1]),
    "pandas of Arrow": lambda columns: pd.DataFrame(columns).convert_dtypes(dtype_backend="pyarrow"),
    "polars": pl.DataFrame,
    "arrow": pa.table,
    "batch": pa.RecordBatch.from_pydict,
}


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("frame", FRAMES.values(), ids=FRAMES)
def test_each_row_of_a_data_frame_is_an_event(frame: Callable[[Any], Any]) -> None:
    fed = hr.testing.feed(CardTaps, frame(COLUMNS))
    assert [event["id"] for event in fed.clean] == ["t1", "t2", "t3"]
    assert [dead.reason for dead in fed.dead] == ["missing-id: column id is absent or null"]
    moment = fed.at(AT)
    assert {card: (row.taps_1h, row.spend_1h) for card, row in moment.items()} == {"c1": (2, 1.0), "c2": (1, 3.0)}


def test_rows_of_a_data_frame_can_be_late_twice_and_out_of_order() -> None:
    frame = pd.DataFrame(COLUMNS)
    assert len(hr.testing.feed(CardTaps, hr.testing.duplicated(frame)).duplicates) == 3
    assert len(hr.testing.feed(CardTaps, hr.testing.shuffled(frame)).clean) == 3
    mixed = [tap(id="t9"), hr.testing.late(to_table_rows(frame)[0], by="1h"), *to_table_rows(pl.DataFrame(COLUMNS))]
    fed = hr.testing.feed(CardTaps, mixed)
    assert [event["id"] for event in fed.late] == ["t1"]
    assert [event["id"] for event in fed.clean] == ["t9", "t1", "t2", "t3"]


@pytest.mark.parametrize(
    "times",
    [
        pd.date_range("2026-01-01", periods=2, freq="ns"),
        pd.date_range("2026-01-01", periods=2, tz="Asia/Kolkata"),
        [date(2026, 1, 1), date(2026, 1, 2)],
        ["2026-01-01T00:00:00Z", "noon"],
        [1_767_225_600_000, 1_767_225_600_001],
    ],
    ids=["nanoseconds", "time zone", "dates", "text", "milliseconds"],
)
def test_a_row_is_the_event_that_replay_sends_of_it(times: Any, tmp_path: Path) -> None:
    frame = pd.DataFrame({"id": ["t1", "t2"], "card": ["c1", "c2"], "n": [1.0, None], "ok": [True, None], "at": times})
    file = tmp_path / "taps.parquet"
    pyarrow.parquet.write_table(pa.Table.from_pandas(frame), file)
    sent = [event.value for event in open_recording(TAPS, file).events()]
    fed = [record.value for _, record in to_raw_records(TAPS, [to_arrival(row) for row in to_table_rows(frame)])]
    assert sorted(fed) == sorted(sent)


def test_a_data_frame_that_replay_would_refuse_is_refused_in_its_words() -> None:
    with pytest.raises(InvalidRecordingError, match=r"The DataFrame has no column 'id'. Rename one of card, amount"):
        hr.testing.feed(CardTaps, pd.DataFrame(COLUMNS).drop(columns="id"))
    with pytest.raises(
        InvalidRecordingError, match="The DataFrame: column 'amount' is string and cannot be read as double"
    ):
        hr.testing.feed(CardTaps, pa.table(COLUMNS | {"amount": ["five"] * 4}))
    with pytest.raises(UnfitDataFrame, match="Give each column values of one type"):
        hr.testing.feed(CardTaps, pd.DataFrame(COLUMNS | {"amount": [1, "five", b"6", None]}))


def test_a_column_that_nobody_declared_is_warned_of() -> None:
    with pytest.warns(UndeclaredField, match="The schema of taps has no 'amuont'"):
        hr.testing.feed(CardTaps, pd.DataFrame(COLUMNS | {"amuont": [1.0] * 4}))
