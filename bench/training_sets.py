"""Training sets of one spine in three ways, in one process: Headrace, a Spark SQL range join, and DuckDB.

python -m bench.training_sets FOLDER --events 1000000 --per-card 10000
"""

import json
import os
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from math import isclose
from pathlib import Path

import click
import duckdb
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F

import headrace as hr
from bench.app import payments
from headrace.declare.features.view import require_view
from headrace.embedded_servers.jars import jar_paths
from headrace.embedded_servers.java import find_java
from headrace.lake.training.training_set import training_set
from headrace.spark.session.session import SparkSessionConfig, start_session

WINDOWS = ["1h", "1d", "7d"]
DAYS = 30
FIRST_US = 1_767_225_600_000_000
ROWS_EVERY = 80


@hr.features(payments, by="card")
class Spending:
    """Ten features over three windows."""

    payments = hr.count(windows=WINDOWS)
    large = hr.count(where="amount > 100", windows=WINDOWS)
    spend = hr.sum("amount", windows=WINDOWS)
    large_spend = hr.sum("amount", where="amount > 100", windows=WINDOWS)
    mean = hr.mean("amount", windows=WINDOWS)
    spread = hr.stddev("amount", windows=WINDOWS)
    least = hr.min("amount", windows=WINDOWS)
    most = hr.max("amount", windows=WINDOWS)
    newest = hr.last("amount", windows=WINDOWS)
    oldest = hr.first("merchant", windows=WINDOWS)


# The same in SQL: {end} is within one window of the event, ordered by {time}.
AGGREGATES = {
    "payments": "count(CASE WHEN {in_window} THEN 1 END)",
    "large": "count(CASE WHEN {in_window} AND amount > 100 THEN 1 END)",
    "spend": "sum(CASE WHEN {in_window} THEN amount END)",
    "large_spend": "sum(CASE WHEN {in_window} AND amount > 100 THEN amount END)",
    "mean": "avg(CASE WHEN {in_window} THEN amount END)",
    "spread": "stddev_samp(CASE WHEN {in_window} THEN amount END)",
    "least": "min(CASE WHEN {in_window} THEN amount END)",
    "most": "max(CASE WHEN {in_window} THEN amount END)",
    "newest": "max_by(CASE WHEN {in_window} THEN amount END, CASE WHEN {in_window} THEN event_us END)",
    "oldest": "min_by(CASE WHEN {in_window} THEN merchant END, CASE WHEN {in_window} THEN event_us END)",
}


@dataclass(frozen=True)
class Case:
    """The number of events, in total and per card, and whether one card has half of them."""

    events: int
    per_card: int
    hot: bool


WARM_UP = Case(events=500_000, per_card=50, hot=False)


@dataclass(frozen=True)
class Taken:
    """The seconds of each way for one case; None if it was not run."""

    case: Case
    rows: int
    headrace_seconds: float
    sql_seconds: float | None
    sql_with_repeats_seconds: float | None
    duckdb_seconds: float | None


@click.command()
@click.argument("folder", type=click.Path(path_type=Path))
@click.option("--events", type=int, required=True)
@click.option("--per-card", type=int, required=True)
@click.option("--hot", is_flag=True)
@click.option("--alone", is_flag=True, help="Without the other two.")
def main(folder: Path, events: int, per_card: int, hot: bool, alone: bool) -> None:
    """Build the training set in each way, and print the durations as JSON."""
    os.environ["JAVA_HOME"] = str(find_java().home)
    cores = len(os.sched_getaffinity(0))
    place = SparkSessionConfig(None, cores, jar_paths("spark"), folder / "scratch", is_streaming=False)
    spark = start_session(place)
    spark.conf.set("spark.sql.shuffle.partitions", 4 * cores)
    _measured(spark, WARM_UP, folder / "warm", alone)
    print(json.dumps(asdict(_measured(spark, Case(events, per_card, hot), folder, alone))), flush=True)
    spark.stop()


def _write(spark: SparkSession, case: Case, folder: Path) -> None:
    """Write events and spine as Parquet: the same for the same case."""
    events = _events(spark, case)
    events.write.parquet(str(folder / "events"))
    spine = spark.read.parquet(str(folder / "events")).where(f"pmod(xxhash64(payment_id, 7), {ROWS_EVERY}) = 0")
    rows = spine.select("card", "at", F.monotonically_increasing_id().alias("number"))
    bounds = {f.window.text: f.window for f in require_view(Spending).features}
    for text, window in bounds.items():
        rows = rows.withColumn(f"low_{text}", _first_tile_us(window.length_us, window.hop_us))
    rows.write.parquet(str(folder / "spine"))


def _first_tile_us(length_us: int, hop_us: int) -> Column:
    """The start of a window's first tile, so that each way counts the same events."""
    before = F.unix_micros("at") - length_us - hop_us
    return before - F.pmod(before, F.lit(hop_us)) + hop_us


def _events(spark: SparkSession, case: Case) -> DataFrame:
    number = F.col("id")
    usual = F.concat(F.lit("c"), F.pmod(F.xxhash64(number), F.lit(case.events // case.per_card)).cast("string"))
    is_hot = F.lit(case.hot) & (F.pmod(F.xxhash64(number, F.lit(9)), F.lit(2)) == 0)
    at_us = F.lit(FIRST_US) + F.pmod(F.xxhash64(number, F.lit(3)), F.lit(DAYS * 86_400_000_000))
    return spark.range(case.events).select(
        F.concat(F.lit("p"), number.cast("string")).alias("payment_id"),
        F.when(is_hot, F.lit("hot")).otherwise(usual).alias("card"),
        F.concat(F.lit("m"), F.pmod(F.xxhash64(number, F.lit(2)), F.lit(50)).cast("string")).alias("merchant"),
        (F.pmod(F.xxhash64(number, F.lit(1)), F.lit(100_000)) / 500).alias("amount"),
        F.timestamp_micros(at_us).alias("at"),
        F.timestamp_micros(at_us).alias("hr_arrival"),
        F.lit(0).alias("hr_partition"),
        number.alias("hr_offset"),
    )


def _measured(spark: SparkSession, case: Case, folder: Path, alone: bool) -> Taken:
    _write(spark, case, folder)
    spine, events = (spark.read.parquet(str(folder / name)) for name in ("spine", "events"))
    ways: dict[str, Callable[[], DataFrame | None]] = {"headrace": lambda: _headrace(spark, spine, events)}
    if not alone:
        once = events.dropDuplicates(["payment_id"])
        ways |= {"sql": lambda: spark.sql(_sql(spine, once)), "duckdb": lambda: _duckdb(folder)}
    if not alone and case.per_card == WARM_UP.per_card:
        ways |= {"sql_with_repeats": lambda: spark.sql(_sql(spine, events))}
    seconds = {name: _seconds(way, folder / f"by_{name}") for name, way in ways.items()}
    if not alone:
        _require_same(spark, folder)
    return Taken(
        case,
        spine.count(),
        seconds["headrace"],
        seconds.get("sql"),
        seconds.get("sql_with_repeats"),
        seconds.get("duckdb"),
    )


def _seconds(way: Callable[[], DataFrame | None], target: Path) -> float:
    began = time.perf_counter()
    frame = way()
    if frame is not None:
        frame.write.parquet(str(target))
    return time.perf_counter() - began


def _headrace(spark: SparkSession, spine: DataFrame, events: DataFrame) -> DataFrame:
    wanted = spine.select("card", "at", "number")
    return training_set(spark, wanted, [Spending], as_of="event", source={payments.name: events})


def _sql(spine: DataFrame, events: DataFrame) -> str:
    spine.createOrReplaceTempView("spine")
    events.selectExpr(
        "card AS event_card", "amount", "merchant", "unix_micros(at) AS event_us"
    ).createOrReplaceTempView("events")
    return _query("unix_micros(spine.at)")


def _query(at_us: str) -> str:
    aggregates = [
        f"{aggregate.format(in_window=f'event_us >= low_{window}')} AS {name}_{window}"
        for name, aggregate in AGGREGATES.items()
        for window in WINDOWS
    ]
    return (
        f"SELECT number, {', '.join(aggregates)} FROM spine LEFT JOIN events ON event_card = card "
        f"AND event_us <= {at_us} AND event_us >= low_7d GROUP BY number"
    )


def _duckdb(folder: Path) -> None:
    connection = duckdb.connect()
    connection.execute(f"CREATE VIEW spine AS SELECT * FROM '{folder}/spine/*.parquet'")
    connection.execute(
        'CREATE VIEW events AS SELECT card AS event_card, amount, merchant, epoch_us("at") AS event_us '
        f"FROM (SELECT DISTINCT ON (payment_id) * FROM '{folder}/events/*.parquet')"
    )
    query = _query('epoch_us(spine."at")')
    connection.execute(f"COPY ({query}) TO '{folder}/by_duckdb.parquet'")
    connection.close()


def _require_same(spark: SparkSession, folder: Path) -> None:
    """Require equal results of all ways, without which the durations mean nothing."""
    totals = [f"sum({name}_{window})" for name in AGGREGATES if name != "oldest" for window in WINDOWS]
    ways = [folder / "by_headrace", folder / "by_sql", folder / "by_duckdb.parquet"]
    first, *others = [spark.read.parquet(str(way)).selectExpr("count(*)", *totals).collect()[0] for way in ways]
    for other in others:
        if not all(isclose(*pair, rel_tol=1e-9) for pair in zip(first, other, strict=True)):
            raise SystemExit(f"the ways do not agree: {first} and {other}")


if __name__ == "__main__":
    main()
