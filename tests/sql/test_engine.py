"""SQL over a lake returns what its events say, and can read and change nothing but its tables."""

import json
import os
import time
from collections import Counter, defaultdict
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake

import headrace as hr
from headrace.lake.training.arrow_features import output_type
from headrace.sql import engine as engine_module
from headrace.sql.engine import SqlEngine
from headrace.sql.errors import NotReadOnlyError, QueryMemoryError, QueryTimeoutError, SqlRefused
from headrace.sql.live_columns import live_columns
from headrace.sql.worker_messages import SqlRequest
from tests.sql.lakes import land, payment, payments

EVENTS = [payment(number) for number in range(200)]
LIVE = {"CardSpend": {"card": "VARCHAR", "spend": "DOUBLE", "hr_event_time": "TIMESTAMPTZ"}}


@pytest.fixture(scope="module")
def lake(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A lake whose path has to be quoted."""
    made = tmp_path_factory.mktemp("it's") / "the lake"
    land(made, payments, EVENTS[:120])
    land(made, payments, EVENTS[120:])
    return made


@pytest.fixture(scope="module")
def engine(lake: Path) -> SqlEngine:
    return SqlEngine(lake, LIVE)


def ask(engine: SqlEngine, sql: str, most_rows: int = 1000, most_bytes: int = 1 << 20, seconds: float = 10.0) -> Any:
    return json.loads(engine.run_query(SqlRequest(sql, most_rows, most_bytes, seconds), {}))


def rows(engine: SqlEngine, sql: str, **limits: Any) -> list[list[Any]]:
    return list(ask(engine, sql, **limits)["rows"])


def by_hand(column: str, events: list[dict[str, Any]]) -> dict[Any, tuple[int, float | None]]:
    """How many events each value of a column has, and the sum of their amounts."""
    counts, sums = Counter(event[column] for event in events), defaultdict[Any, list[float]](list)
    for event in events:
        if event["amount"] is not None:
            sums[event[column]].append(event["amount"])
    return {value: (number, sum(sums[value]) if sums[value] else None) for value, number in counts.items()}


@pytest.mark.parametrize("column", ["card", "country", "id"])
def test_counts_and_sums_are_those_of_the_events(engine: SqlEngine, column: str) -> None:
    found = rows(engine, f"select {column}, count(*), sum(amount) from silver.payments group by 1")
    assert {value: (number, total) for value, number, total in found} == by_hand(column, EVENTS)


def test_the_day_of_a_partition_is_a_column_and_chooses_files(engine: SqlEngine) -> None:
    found = rows(engine, "select hr_day, count(*) from payments where hr_day >= '2026-01-03' group by 1 order by 1")
    days = Counter(str(event["at"].date()) for event in EVENTS)
    assert found == [[day, days[day]] for day in ("2026-01-03", "2026-01-04")]
    plan = rows(engine, "explain select count(id) from payments where hr_day = '2026-01-03'")[0][1]
    assert "2/8" in plan.replace(" ", "").replace("│", "")  # of eight files the two of that day


def test_rows_are_whole_and_typed(engine: SqlEngine) -> None:
    found = ask(engine, "select id, card, country, amount, \"at\" from payments where id = 'p77'")
    assert found["rows"] == [["p77", "c4", None, None, "2026-01-02T00:00:17Z"]]
    types = {column["name"]: column["type"] for column in found["columns"]}
    assert types == {
        "id": "VARCHAR",
        "card": "VARCHAR",
        "country": "VARCHAR",
        "amount": "DOUBLE",
        "at": "TIMESTAMP WITH TIME ZONE",
    }


def test_what_lands_is_there_at_the_next_question(tmp_path: Path) -> None:
    engine = SqlEngine(tmp_path, {})
    assert rows(engine, "show tables") == []
    for landed in (10, 20, 30):
        land(tmp_path, payments, [payment(number) for number in range(landed - 10, landed)])
        assert rows(engine, "select count(*), count(distinct id) from payments") == [[landed, landed]]
    folder = tmp_path / "silver" / "payments"
    table = DeltaTable(folder)
    table.optimize.compact()
    table.delete("hr_day = '2026-01-01'")
    kept = sum(payment(number)["at"].day != 1 for number in range(30))
    assert rows(engine, "select count(*), count(distinct id) from payments") == [[kept, kept]]
    folder.rename(tmp_path / "elsewhere")
    with pytest.raises(SqlRefused, match="show tables"):
        rows(engine, "select count(*) from payments")


def test_an_unchanged_log_is_not_read_again(tmp_path: Path) -> None:
    land(tmp_path, payments, EVENTS[:10])
    log = tmp_path / "silver" / "payments" / "_delta_log"
    engine, long_ago = SqlEngine(tmp_path, {}), time.time() - 60
    os.utime(log, (long_ago, long_ago))
    assert rows(engine, "select count(*) from payments") == [[10]]
    land(tmp_path, payments, EVENTS[10:20])
    os.utime(log, (long_ago, long_ago))  # as if nothing had come
    assert rows(engine, "select count(*) from payments") == [[10]]
    os.utime(log)
    assert rows(engine, "select count(*) from payments") == [[20]]


def test_a_second_commit_of_the_same_tick_is_not_missed(tmp_path: Path) -> None:
    engine, log, soon = SqlEngine(tmp_path, {}), tmp_path / "silver" / "payments" / "_delta_log", time.time() + 5
    for landed in (10, 20):
        land(tmp_path, payments, EVENTS[landed - 10 : landed])
        os.utime(log, (soon, soon))
        assert rows(engine, "select count(*) from payments") == [[landed]]


def test_a_column_that_older_files_lack_is_null_there(tmp_path: Path) -> None:
    land(tmp_path, payments, EVENTS[:10], without=("country",))
    engine = SqlEngine(tmp_path, {})
    assert rows(engine, "select count(*), count(country) from payments") == [[10, 0]]
    land(tmp_path, payments, EVENTS[10:40])
    named = sum(event["country"] is not None for event in EVENTS[10:40])
    assert rows(engine, "select count(*), count(country) from payments") == [[40, named]]


def test_a_table_without_files_has_columns_and_no_rows(tmp_path: Path) -> None:
    land(tmp_path, payments, [])
    engine = SqlEngine(tmp_path, {})
    assert rows(engine, "select count(*), sum(amount) from payments") == [[0, None]]
    assert ["at", "TIMESTAMP WITH TIME ZONE"] in [row[:2] for row in rows(engine, "describe payments")]


def test_a_table_that_cannot_be_read_says_why_and_leaves_the_others_alone(tmp_path: Path) -> None:
    land(tmp_path, payments, EVENTS[:10])
    log = tmp_path / "gold" / "broken" / "_delta_log"
    log.mkdir(parents=True)
    (log / "00000000000000000000.json").write_text("half a l")
    newer = tmp_path / "gold" / "newer"
    configuration = {"delta.enableDeletionVectors": "true"}
    write_deltalake(newer, DeltaTable(tmp_path / "silver" / "payments").to_pyarrow_table(), configuration=configuration)
    engine = SqlEngine(tmp_path, {})
    assert rows(engine, "select count(*) from silver.payments") == [[10]]
    twin = tmp_path / "silver" / "Payments"
    write_deltalake(twin, DeltaTable(tmp_path / "silver" / "payments").to_pyarrow_table())
    os.utime(tmp_path / "silver" / "payments" / "_delta_log")
    with pytest.raises(SqlRefused, match="differs from it in case alone"):
        rows(engine, "select count(*) from silver.payments")
    twin.rename(tmp_path / "twin")
    assert rows(engine, "select count(*) from silver.payments") == [[10]]
    with pytest.raises(SqlRefused, match="cannot be read"):
        rows(engine, "select * from gold.broken")
    with pytest.raises(SqlRefused, match="readers of version 3"):
        rows(engine, "select count(*) from gold.newer")


def test_tables_are_listed_with_their_layer_and_columns(engine: SqlEngine) -> None:
    listed = {(layer, name): columns for layer, name, columns in rows(engine, " SHOW  tables ;")}
    assert listed.keys() == {("live", "CardSpend"), ("silver", "payments")}
    assert listed["live", "CardSpend"] == ["card", "spend", "hr_event_time"]
    assert [row[0] for row in rows(engine, "describe silver.payments")] == listed["silver", "payments"]


def test_values_that_json_lacks_are_said_clearly(engine: SqlEngine) -> None:
    said = {
        "'nan'::double": "NaN",
        "-'inf'::double": "-Infinity",
        "12.50::decimal(10,2)": "12.50",
        "7::decimal(38,0)": 7,
        "170141183460469231731687303715884105727::hugeint": 2**127 - 1,
        "'\\x00\\xff'::blob": "AP8=",
        "timestamptz '2026-01-01 01:00:00+01'": "2026-01-01T00:00:00Z",
        "timestamp '2026-01-01 01:00:00'": "2026-01-01T01:00:00",
        "date '2026-01-01'": "2026-01-01",
        "time '12:30:00'": "12:30:00",
        "interval 90 seconds": 90.0,
        "make_timestamptz(9223372036854000000)": "294247-01-10 04:00:54+00",
        "[1, null, 'nan'::double]": [1.0, None, "NaN"],
        "{'a': 1, 'b': [date '2026-01-01']}": {"a": 1, "b": ["2026-01-01"]},
        "map {1: 'x'}": {"1": "x"},
        "uuid '00000000-0000-0000-0000-000000000001'": "00000000-0000-0000-0000-000000000001",
        "'{\"a\": 1}'::json": '{"a": 1}',
        "null": None,
        "'<script>'": "<script>",
    }
    (found,) = rows(engine, f"select {', '.join(said)}")
    assert found == list(said.values())


def test_columns_of_one_name_are_both_there(engine: SqlEngine) -> None:
    found = ask(engine, "select 1 as a, 'x' as a")
    assert [column["name"] for column in found["columns"]] == ["a", "a"]
    assert found["rows"] == [[1, "x"]]


def test_an_answer_that_is_cut_says_so(engine: SqlEngine) -> None:
    few = ask(engine, "select * from range(11)", most_rows=10)
    assert (len(few["rows"]), few["cut"]) == (10, True)
    whole = ask(engine, "select * from range(10)", most_rows=10)
    assert (len(whole["rows"]), whole["cut"]) == (10, False)
    wide = ask(engine, "select repeat('x', 1000) from range(100)", most_bytes=10_050)
    assert (len(wide["rows"]), wide["cut"]) == (10, True)
    endless = ask(engine, "select * from range(1000000000000)", most_rows=5)
    assert (endless["rows"], endless["cut"]) == ([[0], [1], [2], [3], [4]], True)


def test_a_query_that_never_ends_is_ended_and_the_next_is_answered(engine: SqlEngine) -> None:
    for sql in (
        "select count(*) from payments a, payments b, payments c, payments d, payments e",
        "with recursive r as (select 1 as x union all select x + 1 from r) select max(x) from r",
        "select sleep_ms(60000)",
    ):
        began = time.monotonic()
        with pytest.raises(QueryTimeoutError, match=r"ended after 0\.2 s"):
            rows(engine, sql, seconds=0.2)
        assert time.monotonic() - began < 50  # not the minute that one of them sleeps
    assert rows(engine, "select count(*) from payments") == [[200]]


def test_a_query_that_waits_for_a_core_is_not_ended_for_it(engine: SqlEngine) -> None:
    assert rows(engine, "select sleep_ms(1500)", seconds=1.0) == [[None]]


def test_a_query_that_needs_too_much_memory_is_refused_and_the_next_is_answered(engine: SqlEngine) -> None:
    with pytest.raises(QueryMemoryError):
        rows(engine, "select list(range) from range(1000000000)", seconds=60)
    assert rows(engine, "select count(*) from payments") == [[200]]


NO_QUERY = [
    "",
    "-- nothing",
    "select 1; select 2",
    "select 1; drop table silver.payments",
    "copy (select 1) to '{folder}/out.csv'",
    "copy silver.payments to '{lake}/out.csv'",
    "explain analyze copy (select 1) to '{lake}/out.csv'",
    "explain /* x */ analyse copy (select 1) to '{lake}/out.csv'",
    "explain (analyze) copy (select 1) to '{lake}/out.csv'",
    "explain explain analyze copy (select 1) to '{lake}/out.csv'",
    "attach '{folder}/other.db'",
    "install httpfs",
    "load httpfs",
    "pragma version",
    "pragma database_list",
    "set threads = 8",
    "set enable_external_access = true",
    "reset lock_configuration",
    "export database '{folder}/all'",
    "import database '{folder}/all'",
    "create table t (a int)",
    "create temp table t as select 1",
    "create or replace view silver.payments as select 1",
    "create macro f() as 1",
    "create secret (type s3)",
    "insert into silver.payments (id) values ('x')",
    "delete from silver.payments",
    "update silver.payments set amount = 0",
    "drop view silver.payments",
    "alter table silver.payments rename to other",
    "prepare p as select 1",
    "execute p",
    "begin",
    "commit",
    "rollback",
    "use main",
    "checkpoint",
    "vacuum",
    "call pragma_version()",
    "call enable_logging()",
    "detach memory",
]
FORBIDDEN = [
    "select * from read_csv('/etc/passwd')",
    "select * from read_text('/etc/passwd')",
    "select * from read_blob('/proc/self/environ')",
    "select * from read_json('/etc/passwd')",
    "select * from read_parquet('{folder}/*.parquet')",
    "select * from '/etc/passwd'",
    "select * from '{folder}/secret.csv'",
    "select * from glob('/etc/*')",
    "select * from glob('{lake}/../*')",
    "select * from read_text('{lake}/../secret.csv')",
    "select * from read_text('{lake}/link')",
    "select * from sniff_csv('/etc/passwd')",
    "select * from parquet_metadata('/etc/passwd')",
    "select * from read_duckdb('{folder}/other.db')",
    "select * from 'https://example.com/x.parquet'",
    "select * from read_csv('s3://bucket/x.csv')",
    "select getenv('HOME')",
    "select * from duckdb_secrets()",
    "select * from duckdb_extensions()",
    "select * from query('drop view silver.payments')",
    "select * from query('select 1; select 2')",
    "with gone as (delete from silver.payments returning *) select * from gone",
    "with new as (insert into live.CardSpend values ('x', 1, null) returning *) select * from new",
    "select * from enable_logging()",
    "select * from enable_profiling(save_location = '{folder}/profile.json')",
    "select * from force_checkpoint()",
    "select * from connection",
    "select * from self",
    "select " + "(" * 3000 + "1" + ")" * 3000,
    "select " + "not " * 5000 + "true",
    "select 1" + " " * 50_000,
]


def snapshot(folder: Path) -> Mapping[str, int]:
    return {str(path): path.stat().st_mtime_ns for path in folder.rglob("*")}


@pytest.mark.parametrize("sql", NO_QUERY)
def test_what_is_no_query_is_refused_and_changes_nothing(engine: SqlEngine, lake: Path, sql: str) -> None:
    before = snapshot(lake.parent)
    with pytest.raises((NotReadOnlyError, SqlRefused)):
        rows(engine, sql.format(folder=str(lake.parent).replace("'", "''"), lake=str(lake).replace("'", "''")))
    assert snapshot(lake.parent) == before
    assert rows(engine, "select count(*) from payments") == [[200]]


@pytest.mark.parametrize("sql", FORBIDDEN)
def test_nothing_but_the_tables_is_reached(engine: SqlEngine, lake: Path, sql: str) -> None:
    secret, link = lake.parent / "secret.csv", lake / "link"
    secret.write_text("a\nhidden\n")
    if not link.is_symlink():
        link.symlink_to(secret)
    before = snapshot(lake.parent)
    with pytest.raises(SqlRefused) as refused:
        rows(engine, sql.format(folder=str(lake.parent).replace("'", "''"), lake=str(lake).replace("'", "''")))
    assert "hidden" not in str(refused.value)
    assert snapshot(lake.parent) == before
    assert rows(engine, "select count(*) from payments") == [[200]]


def test_no_variable_of_ours_is_a_table(engine: SqlEngine, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(engine_module, "hidden", pa.table({"a": [1]}), raising=False)
    with pytest.raises(SqlRefused, match="hidden does not exist"):
        rows(engine, "select * from hidden")


def test_a_word_that_is_sqls_own_is_named(engine: SqlEngine) -> None:
    with pytest.raises(SqlRefused, match='write the column as "at"'):
        rows(engine, "select max(at) from payments")


@pytest.mark.parametrize(
    "sql",
    [
        "select * from live.CardSpend",
        "select count(*) from CardSpend",
        "select * from cardspend where spend > 3 and card = 'x'",
        "select * from query('from live.Card' || 'Spend')",
        "select card from payments where card in (select card from live.CardSpend)",
    ],
)
def test_a_live_table_whose_rows_did_not_come_is_refused_and_never_empty(engine: SqlEngine, sql: str) -> None:
    with pytest.raises(SqlRefused, match="come with the query that names it"):
        rows(engine, sql)


def test_rows_of_a_live_table_are_there_for_their_query_alone(engine: SqlEngine) -> None:
    at = datetime(2026, 1, 1, tzinfo=UTC)
    live: dict[str, list[list[Any]]] = {"CardSpend": [["c1", float("nan"), at], ["c2", None, None]]}
    asked = SqlRequest("select * from live.CardSpend order by card", 10, 1 << 20, 10)
    assert json.loads(engine.run_query(asked, live))["rows"] == [
        ["c1", "NaN", "2026-01-01T00:00:00Z"],
        ["c2", None, None],
    ]
    assert json.loads(engine.run_query(asked, {"CardSpend": []}))["rows"] == []
    added = "with new as (insert into live.CardSpend values ('x', 1, null) returning *) select * from new"
    with pytest.raises(SqlRefused, match="read-only"):
        engine.run_query(SqlRequest(added, 10, 1 << 20, 10), live)
    with pytest.raises(SqlRefused, match="come with the query"):
        engine.run_query(asked, {})


def test_a_live_column_has_the_type_that_training_sets_give_it() -> None:
    schema = "id string, k bigint, i int, b bigint, s string, t timestamp"
    numbers = hr.Stream("numbers", schema=schema, id="id", key="k", time="t")
    body = {
        "counted": hr.count(windows="1h"),
        "by": hr.count(by="s", windows="1h"),
        "distinct": hr.distinct("s", windows="1h"),
        "small": hr.sum("i", windows="1h"),
        "large": hr.sum("b", windows="1h"),
        "mean": hr.mean("i", windows="1h"),
        "spread": hr.stddev("i", windows="1h"),
        "median": hr.quantile("i", 0.5, windows="1h"),
        "faded": hr.ewm("i", halflife="1h", windows="1d"),
        "top": hr.top("s", 2, windows="1h"),
        "most": hr.max("i", windows="1h"),
        "last": hr.last("s", windows="1h"),
        "latest": hr.max("t", windows="1h"),
    }
    view = hr.features(numbers, by="k")(type("Numbers", (), body))
    engine = SqlEngine(None, {"Numbers": live_columns(view)})
    arrow = engine._connection.sql("select * from live.Numbers limit 0").to_arrow_table().schema
    for feature in view.features:
        assert arrow.field(feature.name).type == output_type(feature, view), feature.name
    assert arrow.field("k").type == "int64"
