"""The same number everywhere, on real flights: served while they are replayed, trained on, and by brute force.

    replay ──▶ headrace up ──▶ asked all the while ─┐
       └─ the same recording ──▶ training sets ─────┴─▶ compared

python examples/flights/proof.py --days 30 --pairs 1000000
"""

import json
import os
import random
import subprocess
import sys
import tempfile
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from math import isclose
from pathlib import Path
from typing import Any

import click
import duckdb
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from headrace.declare.app import App, load_app
from headrace.declare.views import View
from headrace.lake.check import check_served
from headrace.lake.training import training_set
from headrace.local.jars import jar_paths
from headrace.local.java import find_java
from headrace.local.ports import HOST, free_port
from headrace.stream.session import SparkPlace, start_session

HERE = Path(__file__).parent
BEGINNING = datetime(2013, 1, 1, tzinfo=UTC)
STREAMS = ("departures", "arrivals")
LIMIT_SECONDS = 1800


@click.command()
@click.option("--days", default=30, show_default=True, help="How much of the year.")
@click.option("--speed", default="max", show_default=True)
@click.option("--pairs", default=1_000_000, show_default=True, help="Rows of the training set.")
@click.option("--sampled", default=10_000, show_default=True, help="Rows that DuckDB computes as well.")
def main(days: int, speed: str, pairs: int, sampled: int) -> None:
    """Replay, ask, train and compare; exit 1 where two numbers differ."""
    app = load_app(str(HERE / "app.py"))
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        recorded(folder, days)
        spark = session(folder)
        wrong = served_and_arrived(app, folder, speed, spark)
        wrong += trained_and_happened(app, folder, spark, pairs, sampled)
        spark.stop()
    sys.exit(1 if wrong else 0)


def recorded(folder: Path, days: int) -> None:
    """The recording, up to a day of the year."""
    subprocess.run([sys.executable, str(HERE / "prepare.py"), str(folder)], check=True, stdout=subprocess.DEVNULL)
    for stream in STREAMS:
        whole = pq.read_table(folder / f"{stream}.parquet")
        until = pa.scalar(BEGINNING + timedelta(days=days))
        pq.write_table(whole.filter(pc.less(whole["reported_at"], until)), folder / f"{stream}.parquet")


def session(folder: Path) -> SparkSession:
    os.environ["JAVA_HOME"] = str(find_java().home)
    return start_session(SparkPlace(None, os.cpu_count() or 1, jar_paths("spark"), folder / "spark", streams=False))


def served_and_arrived(app: App, folder: Path, speed: str, spark: SparkSession) -> int:
    """Replay into a running Headrace, ask all the while, and check every answer it kept; gives how many were wrong."""
    wrong = 0
    with running(folder) as (url, broker), asking(url, app) as asked:
        replay(folder, broker, speed)
        settle(url)
        click.echo(f"replayed; asked {len(asked):,} times meanwhile")
        for view in app.views:
            found = check_served(spark, view, f"kafka://{broker}")
            click.echo(f"  {view.name}: {found.rows:,} answers by arrival: {found.outcomes}")
            wrong += found.wrong
    return wrong


@contextmanager
def running(folder: Path) -> Iterator[tuple[str, str]]:
    http, broker = f"{HOST}:{free_port()}", free_port()
    command = [sys.executable, "-m", "headrace", "up", str(HERE / "app.py"), "--http", http, "--lake", "off"]
    with (folder / "up.log").open("wb") as log:
        up = subprocess.Popen(
            [*command, "--broker-port", str(broker), "--state", str(folder / "state")], stdout=log, stderr=log
        )
    try:
        wait_for(lambda: answer(f"http://{http}", "/v2/health/ready") is not None, "Headrace to be ready")
        yield f"http://{http}", f"{HOST}:{broker}"
    finally:
        up.terminate()
        up.wait(90)


@contextmanager
def asking(url: str, app: App) -> Iterator[list[None]]:
    """Ask for one entity after another, a little ahead of the newest flight that is known."""
    stop, asked = threading.Event(), list[None]()
    thread = threading.Thread(target=ask_on, args=(url, app, stop, asked))
    thread.start()
    try:
        yield asked
    finally:
        stop.set()
        thread.join()


def ask_on(url: str, app: App, stop: threading.Event, asked: list[None]) -> None:
    dice, newest, ahead = random.Random(1), BEGINNING, timedelta(minutes=30)
    keys = {"carrier": ["UA", "B6", "EV", "DL", "AA", "MQ", "US", "9E"], "origin": ["EWR", "JFK", "LGA"]}
    keys["tail"] = ["N725MQ", "N722MQ", "N723MQ", "N711MQ", "N713MQ", "N258JB", "N298JB", "N353JB", "none"]
    while not stop.wait(0.02):
        view = dice.choice(app.views)
        body = {"keys": [dice.choice(keys[view.by[0]])], "at": (newest + ahead).isoformat()}
        found = answer(url, f"/features/{view.name}", body)
        if found is None:  # the replay was quicker than that
            ahead = min(2 * ahead, timedelta(days=3))
            continue
        asked.append(None)
        seen = found["rows"][0]["event_time"]
        newest = max(newest, datetime.fromisoformat(seen)) if seen else newest


def replay(folder: Path, broker: str, speed: str) -> None:
    flags = ["--speed", speed, "--from", BEGINNING.isoformat(), "--broker", broker]
    command = [sys.executable, "-m", "headrace", "replay", str(HERE / "app.py")]
    replays = [
        subprocess.Popen([*command, stream, str(folder / f"{stream}.parquet"), *flags], stdout=subprocess.DEVNULL)
        for stream in STREAMS
    ]
    if any(one.wait() for one in replays):
        raise SystemExit("a replay failed")


def settle(url: str) -> None:
    """Wait until every record has its fate and every tile is where it is read."""

    def lag() -> float:
        lines = (text(url, "/metrics") or "").splitlines()
        return sum(float(line.split()[-1]) for line in lines if line.startswith(("headrace_lag", "headrace_pending")))

    wait_for(lambda: lag() == 0, "the stream to catch up")
    time.sleep(5)


def trained_and_happened(app: App, folder: Path, spark: SparkSession, pairs: int, sampled: int) -> int:
    """A training set by event time beside DuckDB's brute force on some of its rows; gives how many values differ."""
    wrong = 0
    for view in app.views:
        events = clean_events(spark, folder, view)
        spine = random_pairs(events, view, pairs)
        began = time.perf_counter()
        frame = training_set(spark, spine, [view], as_of="event", source={view.stream.name: events})
        frame.write.mode("overwrite").parquet(str(folder / view.name))
        took = time.perf_counter() - began
        differing = differences(spark, folder, view, events, sampled)
        click.echo(
            f"  {view.name}: {pairs:,} pairs in {took:.0f} s; {sampled:,} of them by brute force: {differing} differ"
        )
        wrong += differing
    return wrong


def clean_events(spark: SparkSession, folder: Path, view: View) -> DataFrame:
    """The recording as the lake would hold it: without what is late."""
    stream = view.stream
    recording = spark.read.parquet(str(folder / f"{stream.name}.parquet"))
    late_us = F.unix_micros(stream.arrival) - F.unix_micros(stream.time)
    placed = recording.withColumn("hr_arrival", F.col(str(stream.arrival))).withColumn("hr_partition", F.lit(0))
    return (
        placed.withColumn("hr_offset", F.monotonically_increasing_id()).where(late_us <= stream.late.until_us).cache()
    )


def random_pairs(events: DataFrame, view: View, pairs: int) -> DataFrame:
    """Entities of the recording at any times in it."""
    (by,) = view.by
    seen = events.select(F.col(by)).where(F.col(by).isNotNull())
    times = events.agg(F.min(view.stream.time), F.max(view.stream.time)).first()
    first_us, last_us = (int(moment.replace(tzinfo=UTC).timestamp()) * 1_000_000 for moment in times)
    copies = -(-pairs // max(1, seen.count()))
    many = seen.withColumn("copy", F.explode(F.sequence(F.lit(1), F.lit(copies)))).limit(pairs)
    number = F.xxhash64(F.monotonically_increasing_id())
    at = F.timestamp_micros(F.lit(first_us) + F.pmod(number, F.lit(last_us - first_us)))
    return many.select(by, at.alias(view.stream.time), F.monotonically_increasing_id().alias("pair"))


def differences(spark: SparkSession, folder: Path, view: View, events: DataFrame, sampled: int) -> int:
    """How many kept values of some rows are not what DuckDB says of the very same windows."""
    (by,), stream = view.by, view.stream
    rows = spark.read.parquet(str(folder / view.name)).orderBy(F.xxhash64("pair")).limit(sampled).toArrow()
    once = events.dropDuplicates([stream.id]).toArrow()  # a repetition says the same again, only later
    connection = duckdb.connect()
    connection.register("rows", rows)
    connection.register("events", once)
    wrong = 0
    for feature in view.features:
        sql = brute_force(feature.aggregate, stream)
        if sql is None:
            continue
        low = f'epoch_us(r."{stream.time}") - {feature.window.length_us + feature.window.hop_us}'
        start = f'epoch_us(e."{stream.time}") - epoch_us(e."{stream.time}") % {feature.window.hop_us}'
        query = (
            f'SELECT r.pair, any_value(r."{feature.name}"), {sql} FROM rows r LEFT JOIN events e ON e.{by} = r.{by} '
            f'AND e."{stream.time}" <= r."{stream.time}" AND {start} > {low} GROUP BY r.pair'
        )
        found = connection.execute(query).fetchall()
        wrong += sum(not same(ours, theirs) for _, ours, theirs in found)
    connection.close()
    return wrong


def brute_force(aggregate: Any, stream: Any) -> str | None:
    """An aggregate in SQL; None for those whose ties SQL does not tell as Headrace does."""
    where = f" FILTER (WHERE e.{aggregate.where})" if aggregate.where is not None else ""
    match aggregate.function:
        case "count":
            return f"count(e.{stream.id}){where}"
        case "sum" | "max" | "min" as name:
            return f"{name}(e.{aggregate.column}){where}"
        case "mean":
            return f"avg(e.{aggregate.column}){where}"
        case "distinct":
            return f"count(DISTINCT e.{aggregate.column}){where}"
    return None


def same(ours: Any, theirs: Any) -> bool:
    if ours is None or theirs is None:
        return ours is theirs
    return isclose(float(ours), float(theirs), rel_tol=1e-9)


def answer(url: str, path: str, body: dict[str, Any] | None = None) -> Any:
    said = text(url, path, body)
    return None if said is None else json.loads(said)


def text(url: str, path: str, body: dict[str, Any] | None = None) -> str | None:
    asked = urllib.request.Request(url + path, json.dumps(body).encode() if body else None)
    try:
        with urllib.request.urlopen(asked, timeout=10) as found:
            return str(found.read().decode())
    except (urllib.error.URLError, OSError):
        return None


def wait_for(holds: Any, what: str) -> None:
    until = time.monotonic() + LIMIT_SECONDS
    while not holds():
        if time.monotonic() > until:
            raise SystemExit(f"waited {LIMIT_SECONDS} s for {what}")
        time.sleep(0.5)


if __name__ == "__main__":
    main()
