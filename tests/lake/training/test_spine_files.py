"""Spines in files: each unambiguous form gives the features of its moments, the others are rejected."""

import json
import random
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from functools import reduce
from pathlib import Path
from typing import Any

import pandas as pd
import pyarrow as pa
import pyarrow.feather
import pyarrow.parquet as pq
import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from headrace.lake.training.spine_files import (
    UnknownFileFormatError,
    UnreadableSpineError,
    read_spine,
    require_known_formats,
)
from headrace.lake.training.spine_times import InvalidTimeColumnError, time_column_us
from headrace.lake.training.training_set import InvalidSpineError, training_set
from tests.lake.test_historical_features import first_of_each_id, known_by, whole
from tests.lake.training.test_training_set import STREAM, clean_events
from tests.oracle import brute
from tests.oracle.everything import every_aggregate
from tests.oracle.streams import SECOND_US, hostile
from tests.oracle.test_kernel_is_brute_force import agrees

BASE_S, ROWS = 1_767_225_600, 12
VIEW = every_aggregate("Forms", STREAM, "card")
SENT = hostile(21, 300, BASE_S * SECOND_US, 3_600 * SECOND_US)
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)

Form = Callable[[pd.DataFrame, Path], Path]


def parquet(convert: Callable[[pd.Series], Any], **more: Any) -> Form:
    def write(frame: pd.DataFrame, folder: Path) -> Path:
        frame.assign(at=convert(frame["at"])).to_parquet(folder / "spine.parquet", **more)
        return folder / "spine.parquet"

    return write


def csv(convert: Callable[[pd.Series], Any]) -> Form:
    def write(frame: pd.DataFrame, folder: Path) -> Path:
        frame.assign(at=convert(frame["at"])).to_csv(folder / "spine.csv", index=False)
        return folder / "spine.csv"

    return write


def indexed(frame: pd.DataFrame, folder: Path) -> Path:
    """With an index that has a name, and is the column of times."""
    frame.set_index("at").to_parquet(folder / "spine.parquet")
    return folder / "spine.parquet"


def unnamed(frame: pd.DataFrame, folder: Path) -> Path:
    """With what is left of an index where rows were dropped."""
    frame.drop(index=1).to_parquet(folder / "spine.parquet")
    assert "__index_level_0__" in pq.read_schema(folder / "spine.parquet").names
    return folder / "spine.parquet"


def arrow(zone: str) -> Form:
    def write(frame: pd.DataFrame, folder: Path) -> Path:
        table = pa.Table.from_pandas(frame.assign(at=frame["at"].dt.tz_localize("UTC").dt.tz_convert(zone)))
        pyarrow.feather.write_feather(table, folder / "spine.arrow")
        return folder / "spine.arrow"

    return write


def arrow_stream(frame: pd.DataFrame, folder: Path) -> Path:
    table = pa.Table.from_pandas(frame)
    table = table.set_column(table.column_names.index("card"), "card", table["card"].dictionary_encode())
    with pa.ipc.new_stream(folder / "spine.arrow", table.schema) as writer:
        writer.write_table(table)
    return folder / "spine.arrow"


def json_lines(frame: pd.DataFrame, folder: Path) -> Path:
    rows = [{"card": row.card, "at": f"{row.at.isoformat()}Z", "label": row.label} for row in frame.itertuples()]
    (folder / "spine.jsonl").write_text("\n".join(map(json.dumps, rows)))
    return folder / "spine.jsonl"


def same(times: pd.Series) -> pd.Series:
    return times


def epochs(unit: str) -> Callable[[pd.Series], Any]:
    return lambda times: times.astype(f"datetime64[{unit}]").astype("int64")


def in_zone(zone: str) -> Callable[[pd.Series], Any]:
    return lambda times: times.dt.tz_localize("UTC").dt.tz_convert(zone)


# Each form, and the smallest part of a second that it can tell.
FORMS: dict[str, tuple[Form, str]] = {
    "pandas": (parquet(same), "ns"),
    "pandas, in a time zone": (parquet(in_zone("Asia/Kolkata")), "ns"),
    "pandas, microseconds": (parquet(lambda times: times.astype("datetime64[us]")), "us"),
    "pandas, milliseconds": (parquet(lambda times: times.astype("datetime64[ms]")), "ms"),
    "pandas, index of times": (indexed, "ns"),
    "pandas, index without a name": (unnamed, "ns"),
    "old Parquet": (parquet(same, use_deprecated_int96_timestamps=True), "us"),
    "CSV": (csv(same), "ns"),
    "CSV, in a time zone": (csv(in_zone("America/New_York")), "ns"),
    "CSV of dates": (csv(lambda times: times.dt.date), "D"),
    "CSV of seconds": (csv(epochs("s")), "s"),
    "dates": (parquet(lambda times: times.dt.date), "D"),
    "texts": (parquet(lambda times: times.dt.strftime("%Y-%m-%dT%H:%M:%S.%f+0000")), "us"),
    **{f"{unit} since 1970": (parquet(epochs(unit)), unit) for unit in ("s", "ms", "us", "ns")},
    "Arrow": (arrow("America/New_York"), "ns"),
    "Arrow stream": (arrow_stream, "ns"),
    "JSON lines": (json_lines, "us"),
}


def spine_rows() -> pd.DataFrame:
    chance, cards = random.Random(5), sorted({one.values["card"] for one in SENT if one.values["card"]})
    times = [BASE_S * 10**9 + chance.randrange(3600 * 10**9) for _ in range(ROWS)]
    return pd.DataFrame(
        {
            "card": [chance.choice(cards) for _ in range(ROWS)],
            "at": pd.to_datetime(times, unit="ns"),
            "label": range(ROWS),
        }
    )


def spines(spark: SparkSession, folder: Path) -> Iterator[DataFrame]:
    for number, (name, (write, _)) in enumerate(FORMS.items()):
        (folder / str(number)).mkdir()
        rows = read_spine(spark, write(spine_rows(), folder / str(number)), {"card"}, "at")
        assert set(rows.columns) == {"card", "at", "label"}
        moment = F.timestamp_micros(time_column_us(rows, "at")).alias("at")
        yield rows.select("card", moment, "label", F.lit(name).alias("form"))


def test_every_form_of_a_spine_gives_what_loops_over_events_say(spark: SparkSession, tmp_path: Path) -> None:
    spine = reduce(DataFrame.unionByName, spines(spark, tmp_path))
    found = training_set(spark, spine, [VIEW], source={"payments": clean_events(spark, SENT)}).collect()
    rows, clean = spine_rows(), first_of_each_id(STREAM, SENT)
    assert len(found) == len(FORMS) * ROWS - 1
    for row in found:
        written, unit = rows.iloc[row["label"]], FORMS[row["form"]][1]
        moment = written["at"].to_numpy().astype(f"datetime64[{unit}]").astype("datetime64[us]").astype(int)
        assert (row["at"].replace(tzinfo=UTC) - EPOCH) // timedelta(microseconds=1) == moment, row["form"]
        expected = brute.features(VIEW, known_by(VIEW, clean, int(moment), "arrival"), (written["card"],), int(moment))
        for feature in VIEW.features:
            value = whole(row[feature.name])
            value = value.replace(tzinfo=UTC) if isinstance(value, datetime) else value
            assert agrees(feature, value, *expected[feature.name]), (feature.name, row["form"])


def test_a_key_of_digits_is_the_text_it_is_written_as(spark: SparkSession, tmp_path: Path) -> None:
    (tmp_path / "spine.csv").write_text("card,at,label\n007,2026-01-01,1\n7,2026-01-02T00:00:00Z,\n")
    rows = read_spine(spark, tmp_path / "spine.csv", {"card"}, "at")
    assert [(row.card, row.label) for row in rows.collect()] == [("007", 1), ("7", None)]


@pytest.mark.parametrize(
    ("times", "said"),
    [
        ([1.5, 2.5], "column 'at' is double, which is no time"),
        ([True, False], "column 'at' is boolean, which is no time"),
        ([12, 13], "column 'at' is bigint, from 12 to 13: these are not all seconds"),
        ([BASE_S, BASE_S * 1000], "these are not all seconds, milliseconds"),
        (["2026-01-01", "01/02/2026"], "column 'at' is text, and '01/02/2026' in it is no time"),
        (["2026-13-01"], "'2026-13-01' in it is no time"),
        (["12:30"], "'12:30' in it is no time"),
    ],
)
def test_what_is_not_clearly_a_time_is_refused(spark: SparkSession, times: list[Any], said: str) -> None:
    spine = spark.createDataFrame(pa.table({"at": times}))
    with pytest.raises(InvalidTimeColumnError, match=said) as refused:
        time_column_us(spine, "at")
    assert "Write timestamps, or texts such as 2026-01-31T12:00:00Z." in str(refused.value)


def test_a_time_without_a_zone_is_in_utc_whatever_the_session_is_in(spark: SparkSession) -> None:
    moments = "timestamp_ntz'2026-03-29 12:00:00' moment, date'2026-03-29' day, '2026-03-29 12:00' text"
    spark.conf.set("spark.sql.session.timeZone", "Europe/Berlin")
    try:
        spine = spark.sql(f"select {moments}")
        (found,) = spine.select(*(time_column_us(spine, name) for name in spine.columns)).collect()
    finally:
        spark.conf.set("spark.sql.session.timeZone", "UTC")
    midnight = 1_774_742_400_000_000
    assert tuple(found) == (midnight + 43_200_000_000, midnight, midnight + 43_200_000_000)


def test_a_key_of_fractions_is_refused_where_texts_are_meant(spark: SparkSession) -> None:
    spine = spark.createDataFrame([(42.0, EPOCH)], "card double, at timestamp")
    with pytest.raises(InvalidSpineError, match=r"column 'card' is double.*42\.0 would not be found as 42.*Int64"):
        training_set(spark, spine, [VIEW], source={})


def test_files_that_cannot_be_a_spine_are_refused_by_their_names(tmp_path: Path) -> None:
    for name in ("spine.parquet", "spine.xlsx"):
        (tmp_path / name).write_text("no spine")
    with pytest.raises(UnknownFileFormatError, match=r"spine\.xlsx.*Name it with one of \.parquet, \.csv"):
        require_known_formats(tmp_path / "spine.xlsx")
    with pytest.raises(UnknownFileFormatError, match=r"out\.arrow"):
        require_known_formats(tmp_path / "spine.parquet", tmp_path / "out.arrow")
    with pytest.raises(UnreadableSpineError, match=r"There is no file .*missing\.csv"):
        require_known_formats(tmp_path / "missing.csv")


def test_files_that_spark_cannot_read_are_refused_with_the_column(spark: SparkSession, tmp_path: Path) -> None:
    (tmp_path / "broken.parquet").write_text("no parquet")
    (tmp_path / "broken.arrow").write_text("no arrow")
    pq.write_table(pa.table({"hour": pa.array([1], pa.time64("ns"))}), tmp_path / "hours.parquet")
    for name, said in [
        ("broken.parquet", "is no Parquet file"),
        ("broken.arrow", "is no Arrow file"),
        ("hours.parquet", r"column 'hour' is time64\[ns\].*Drop it, or write it as text"),
    ]:
        with pytest.raises(UnreadableSpineError, match=said):
            read_spine(spark, tmp_path / name, set(), "at")
