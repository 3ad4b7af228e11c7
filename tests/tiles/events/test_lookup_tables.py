"""Tables in memory: every key, every type, and a file that changes, breaks and disappears during reads."""

import logging
import os
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet
import pytest

import headrace as hr
from headrace.aggregates.value_columns import ValueColumn, to_value_column
from headrace.declare.streams.lookup_table import TableBroken
from headrace.declare.streams.schema import KIND_OF_TYPE
from headrace.tiles.events.lookup_tables import FileTable
from tests.waiting import wait_until

payments = hr.Stream(
    "payments",
    schema="id string, card string, merchant string, amount double, at timestamp",
    id="id",
    key="card",
    time="at",
)
PAYMENT = {"id": "p1", "card": "c1", "merchant": "m1", "amount": 5.0, "at": "2026-01-01T00:00:00Z"}
AT = "2026-01-01T00:05:00Z"


def write(path: Path, **columns: Any) -> Path:
    """Replace a file atomically, as a careful writer does."""
    draft = path.with_suffix(".draft")
    pa.parquet.write_table(pa.table(columns), draft)
    draft.replace(path)
    return path


def listed(values: ValueColumn) -> list[Any]:
    return [value if there else None for value, there in zip(values.data.tolist(), values.valid.tolist(), strict=True)]


def looked_up(table: hr.Table, column: str, keys: list[Any]) -> list[Any]:
    kind = table.key_kind
    return listed(FileTable(table).snapshot().look_up(column, to_value_column(keys, kind)))


def test_known_keys_have_their_values_and_others_are_null(tmp_path: Path) -> None:
    file = write(tmp_path / "m.parquet", merchant=["m1", "", "é", None], limit=[1.5, None, float("nan"), 9.0])
    found = looked_up(hr.Table(str(file), key="merchant"), "limit", ["m1", "", "é", "m9", None, "m1"])
    assert repr(found) == repr([1.5, None, float("nan"), None, None, 1.5])


@pytest.mark.parametrize(
    ("declared", "keys"),
    [
        ("string", ["a", "日本"]),
        ("bigint", [2**63 - 1, -(2**63)]),
        ("tinyint", [-128, 127]),
        ("boolean", [True, False]),
        ("timestamp", [0, -1]),
    ],
)
def test_keys_of_every_type(tmp_path: Path, declared: str, keys: list[Any]) -> None:
    arrow = {"string": pa.string(), "boolean": pa.bool_(), "timestamp": pa.timestamp("us"), "tinyint": pa.int8()}
    file = write(tmp_path / "m.parquet", k=pa.array(keys, arrow.get(declared, pa.int64())), v=["first", "second"])
    table = hr.Table(str(file), key="k", schema=f"k {declared}, v string")
    assert looked_up(table, "v", [*reversed(keys), None]) == ["second", "first", None]
    assert table.key_kind is KIND_OF_TYPE[declared]


def test_a_csv_is_typed_by_its_values_or_by_its_schema(tmp_path: Path) -> None:
    file = tmp_path / "m.csv"
    file.write_text("code,name,opened,zoned\n007,Bond,2026-01-01 00:00:00,2026-01-01T01:00:00+01:00\n008,,,\n")
    seen_us = 1_767_225_600_000_000
    found = hr.Table(str(file), key="code")
    given = hr.Table(str(file), key="code", schema="code string, opened timestamp")
    assert looked_up(found, "name", [7, 8]) == ["Bond", ""]
    assert looked_up(found, "zoned", [7, 8]) == [seen_us, None]
    assert looked_up(given, "opened", ["007", "7"]) == [seen_us, None]


def test_two_rows_of_one_key_are_an_error_that_names_them(tmp_path: Path) -> None:
    file = write(tmp_path / "m.parquet", merchant=["m1", "m2", "m1"], limit=[1, 2, 3])
    with pytest.raises(TableBroken, match=r"m\.parquet' has 2 rows with merchant='m1'\. Keep one"):
        FileTable(hr.Table(str(file), key="merchant"))


def test_a_file_that_lacks_what_was_declared_is_an_error_that_names_it(tmp_path: Path) -> None:
    file = write(tmp_path / "m.parquet", merchant=["m1"], limit=["much"])
    for schema in ("merchant string, limit double", "merchant string, other string"):
        with pytest.raises(TableBroken, match=r"m\.parquet' does not hold merchant string, "):
            FileTable(hr.Table(str(file), key="merchant", schema=schema))


def test_a_changed_file_is_read_again_and_a_broken_one_changes_nothing(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.WARNING, "headrace.tables")
    file = write(tmp_path / "m.parquet", merchant=["m1"], limit=[1])
    loaded = FileTable(hr.Table(str(file), key="merchant"))

    def limit() -> Any:
        (found,) = listed(loaded.snapshot().look_up("limit", to_value_column(["m1"], loaded.table.key_kind)))
        return found

    write(file, merchant=["m0", "m1"], limit=[0, 2])
    wait_until(lambda: limit() == 2, 10, "the new rows")
    file.write_bytes(b"half a fi")
    wait_until(lambda: limit() == 2 and loaded.problem, 10, "the trouble")
    assert "Until then its last rows stay" in loaded.problem
    write(file, merchant=["m1", "m1"], limit=[3, 3])
    wait_until(lambda: limit() == 2 and "2 rows with merchant='m1'" in loaded.problem, 10, "the duplicates")
    file.unlink()
    wait_until(lambda: limit() == 2 and "is missing; its last rows" in loaded.problem, 10, "the file to be missed")
    write(file, merchant=["m1"], limit=[4])
    wait_until(lambda: limit() == 4, 10, "the mended rows")
    assert loaded.problem == ""
    assert len(caplog.messages) == 3


def test_a_change_that_only_the_time_of_the_file_tells_is_seen(tmp_path: Path) -> None:
    file = write(tmp_path / "m.parquet", merchant=["m1"], limit=[1])
    loaded = FileTable(hr.Table(str(file), key="merchant"))
    before = file.stat()
    write(file, merchant=["m1"], limit=[2])
    os.utime(file, ns=(before.st_atime_ns, before.st_mtime_ns + 1))
    assert file.stat().st_size == before.st_size
    rows = loaded.snapshot()
    wait_until(lambda: loaded.snapshot() is not rows, 10, "the other rows")


def test_a_file_that_comes_later_is_a_table_without_rows_until_then(tmp_path: Path) -> None:
    loaded = FileTable(hr.Table(str(tmp_path / "m.parquet"), key="merchant", schema="merchant string, limit bigint"))
    keys = to_value_column(["m1"], loaded.table.key_kind)
    assert listed(loaded.snapshot().look_up("limit", keys)) == [None]
    write(tmp_path / "m.parquet", merchant=["m1"], limit=[1])
    wait_until(lambda: listed(loaded.snapshot().look_up("limit", keys)) == [1], 10, "the rows")


def test_a_fed_view_reads_tables_by_entity_by_feature_and_by_request(tmp_path: Path) -> None:
    opened = datetime(2020, 1, 1, tzinfo=UTC)
    file = write(tmp_path / "m.parquet", merchant=["m1", "m2"], limit=[10, 20], opened=[opened, None])
    merchants = hr.Table(str(file), key="merchant")

    @hr.features(payments, by="card")
    class Card:
        merchant = hr.last("merchant", windows="1h")
        spend = hr.sum("amount", windows="1h")
        used = spend["1h"] / merchants["limit"].of(merchant["1h"])
        opened = merchants["opened"].of(merchant["1h"])
        next_limit = merchants["limit"].of(hr.request("merchant", "string"))

    @hr.features(payments, by="merchant")
    class Merchant:
        payments = hr.count(windows="1h")
        limit = merchants["limit"]
        busy = payments["1h"] > merchants["limit"]

    card = hr.testing.feed(Card, [PAYMENT]).at(AT, {"merchant": "m2"})["c1"]
    assert (card.used, card.opened, card.next_limit) == (0.5, opened, 20)
    never_seen = hr.testing.feed(Card, [PAYMENT]).at(AT)["c2"]
    assert (never_seen.used, never_seen.opened, never_seen.next_limit) == (None, None, None)
    fed = hr.testing.feed(Merchant, [PAYMENT]).at(AT)
    assert [(fed[key].limit, fed[key].busy) for key in ("m1", "m2", "m3")] == [(10, False), (20, False), (None, None)]
    write(file, merchant=["m1"], limit=[0], opened=[opened])
    assert fed["m1"].busy is True
