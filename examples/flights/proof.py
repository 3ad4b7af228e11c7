"""Checks on real flights that served values, training sets and a brute-force computation agree.

    replay ──▶ up ──▶ lake ──▶ training set, by arrival ──┐ the same?
     ▲ pause    └──▶ asked at every pause ────────────────┘
    recording ──▶ DuckDB ──┐ the same?
    lake ──▶ training set, by event ──┘

python examples/flights/proof.py --days 365
"""

import json
import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from datetime import UTC, datetime, timedelta
from math import isclose
from pathlib import Path
from typing import Any, NamedTuple

import click
import duckdb
import numpy as np
import prepare
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from pyspark.sql import DataFrame, SparkSession
from running import ask, metrics, rows_in, running, wait_for

import headrace as hr
from headrace.declare.app import App, load_app
from headrace.declare.features.view import Feature, View
from headrace.embedded_servers.jars import jar_paths
from headrace.embedded_servers.java import find_java
from headrace.lake.training.training_set import AsOf
from headrace.spark.session.session import SparkSessionConfig, start_session

APP = Path(__file__).with_name("app.py")
BEGINNING = datetime(2013, 1, 1, tzinfo=UTC)
SEED = 1

Recordings = dict[str, pa.Table]
Found = dict[str, Any]
Answers = dict[str, Found]


class Served(NamedTuple):
    """The values that the server returned for an entity at a time, after all events reported until then were sent."""

    key: str
    at: datetime
    values: Found


@click.command()
@click.option("--days", default=365, show_default=True, help="How much of the year.")
@click.option("--pauses", default=10, show_default=True, help="How often the replay pauses to read features.")
@click.option("--asked", default=2_000, show_default=True, help="How many answers are compared in all, at most.")
@click.option("--pairs", default=1_000_000, show_default=True, help="Rows of the training sets in all.")
@click.option("--by-hand", default=10_000, show_default=True, help="How many of them DuckDB computes as well.")
def main(days: int, pauses: int, asked: int, pairs: int, by_hand: int) -> None:
    """Replay flights, read features, build training sets and compare; exit 1 if two values differ."""
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # SIGTERM stops the child processes too, like Ctrl-C
    app, dice = load_app(str(APP)), random.Random(SEED)
    views = len(app.views)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        recordings = recorded(days)
        answers = replayed(app, recordings, folder, _pauses(days, pauses), asked // pauses // views, dice)
        spark, wrong = session(folder), 0
        for view in app.views:
            spine = spine_of(view, recordings[view.streams[0].name], answers[view.name], pairs // views, dice)
            wrong += unlike_served(spark, folder, view, spine, answers[view.name])
            wrong += unlike_brute_force(spark, folder, view, spine, recordings[view.streams[0].name], by_hand // views)
        spark.stop()
    click.echo(f"{wrong:,} differ" if wrong else "all the same")
    sys.exit(1 if wrong else 0)


def _pauses(days: int, pauses: int) -> list[datetime]:
    return [BEGINNING + timedelta(days=days) * (number + 1) / pauses for number in range(pauses)]


def recorded(days: int) -> Recordings:
    """Both streams, up to a day of the year."""
    flights, until = prepare.read_flights(), BEGINNING + timedelta(days=days)
    whole = {"departures": prepare.departures(flights), "arrivals": prepare.arrivals(flights)}
    return {name: _until(events, until) for name, events in whole.items()}


def clean(view: View, recording: pa.Table) -> pa.Table:
    """The events of a recording that are not too late, by the stream's own rule."""
    delay_us = prepare.us(recording["reported_at"]) - prepare.us(recording["at"])
    return recording.filter(pa.array(delay_us <= view.streams[0].late.until_us))


def replayed(
    app: App, recordings: Recordings, folder: Path, pauses: list[datetime], keys: int, dice: random.Random
) -> dict[str, list[Served]]:
    """Replay up to each pause, read features there, and wait until all events are in the lake."""
    answers: dict[str, list[Served]] = {view.name: [] for view in app.views}
    began, since = time.perf_counter(), BEGINNING - timedelta(days=1)
    with running(APP, folder, "--lake-every", "10s") as (url, broker):
        for pause in pauses:
            replay(recordings, folder, broker, since, pause)
            questions = {view.name: some_keys(view, recordings, pause, keys, dice) for view in app.views}
            repeated = repeated_by(app, recordings, pause)
            for name, found in settled(url, repeated, questions, pause).items():
                answers[name] += [Served(key, pause, values) for key, values in found.items()]
            since = pause
        sent = sum(len(recording) for recording in recordings.values())
        click.echo(f"{sent:,} flights, {len(pauses)} pauses: {time.perf_counter() - began:.0f} s")
        wait_until_landed(app, recordings, folder / "lake")
    return answers


def replay(recordings: Recordings, folder: Path, broker: str, since: datetime, until: datetime) -> None:
    """Send the events reported in (since, until], both streams in parallel."""
    replays = []
    for stream, events in recordings.items():
        reported, file = events["reported_at"], folder / f"{stream}.parquet"
        due = pc.and_(pc.greater(reported, pa.scalar(since)), pc.less_equal(reported, pa.scalar(until)))
        pq.write_table(events.filter(due), file)
        command = [sys.executable, "-m", "headrace", "replay", str(APP), stream, str(file), "--speed", "max"]
        replays.append(subprocess.Popen([*command, "--broker", broker], stdout=subprocess.DEVNULL))
    if any(one.wait() for one in replays):
        raise SystemExit("a replay failed")


def some_keys(view: View, recordings: Recordings, until: datetime, count: int, dice: random.Random) -> list[str]:
    """Distinct entities with an event reported by a time; those with many flights are drawn more often."""
    events, (by,) = recordings[view.streams[0].name], view.by
    known = _until(events, until)[by]
    keys = dict.fromkeys(known[dice.randrange(len(known))].as_py() for _ in range(20 * count))
    return list(keys)[:count]


def settled(url: str, repeated: dict[str, int], questions: dict[str, list[str]], at: datetime) -> dict[str, Answers]:
    """The answers, once every record has passed the gate and every clean record except duplicates is in a tile."""
    wanted = {f'headrace_duplicates_total{{stream="{name}"}}': float(count) for name, count in repeated.items()}
    wanted |= {f'headrace_lag{{stream="{name}"}}': 0.0 for name in repeated}
    wait_for(lambda: wanted.items() <= metrics(url).items(), "the stream to catch up", every=1)
    return {name: answered(url, name, keys, at) for name, keys in questions.items()}


def answered(url: str, view: str, keys: list[str], at: datetime) -> Answers:
    body = ask(f"{url}/features/{view}", {"keys": keys, "at": at.isoformat()})
    rows = [] if body is None else json.loads(body)["rows"]
    return {key: row["values"] for key, row in zip(keys, rows, strict=True)} if rows else {}


def repeated_by(app: App, recordings: Recordings, until: datetime) -> dict[str, int]:
    """The number of duplicate reports of each stream among those that are not too late."""
    views = {view.streams[0].name: view for view in app.views}
    sent = {name: clean(views[name], _until(events, until))["flight_id"] for name, events in recordings.items()}
    return {name: len(ids) - len(pc.unique(ids)) for name, ids in sent.items()}


def _until(events: pa.Table, until: datetime) -> pa.Table:
    return events.filter(pc.less_equal(events["reported_at"], pa.scalar(until)))


def wait_until_landed(app: App, recordings: Recordings, lake: Path) -> None:
    """Wait until every clean record, duplicates included, is in the lake."""
    views = {view.streams[0].name: view for view in app.views}
    wanted = {name: len(clean(view, recordings[name])) for name, view in views.items()}
    wait_for(lambda: {name: rows_in(lake / "silver" / name) for name in wanted} == wanted, "the lake to have it all")


def session(folder: Path) -> SparkSession:
    os.environ["JAVA_HOME"] = str(find_java().home)
    return start_session(
        SparkSessionConfig(None, os.cpu_count() or 1, jar_paths("spark"), folder / "spark", is_streaming=False)
    )


def spine_of(view: View, recording: pa.Table, answers: list[Served], pairs: int, dice: random.Random) -> pa.Table:
    """The pairs that were read from the server, then random entities of the recording at random times."""
    (by,), chance = view.by, np.random.default_rng(dice.randrange(1 << 32))
    count, times_us = pairs - len(answers), prepare.us(recording["at"])
    drawn = recording[by].take(chance.integers(len(recording), size=count))
    asked = pa.array([one.at for one in answers], pa.timestamp("us", "UTC"))
    keys = [pa.array([one.key for one in answers], pa.string()), *drawn.chunks]
    at = [asked, prepare.times(chance.integers(times_us.min(), times_us.max(), size=count))]
    return pa.table({by: pa.chunked_array(keys), "at": pa.chunked_array(at), "pair": pa.array(range(pairs))})


def trained(spark: SparkSession, folder: Path, view: View, spine: pa.Table, as_of: AsOf) -> DataFrame:
    """A training set from the lake, stored as a file."""
    began, file = time.perf_counter(), folder / f"{view.name}_{as_of}"
    pq.write_table(spine, folder / "spine.parquet")
    rows = spark.read.parquet(str(folder / "spine.parquet"))
    frame = hr.training_set(spark, rows, [view], as_of=as_of, source=folder / "lake")
    frame.write.parquet(str(file))
    click.echo(f"{view.name} by {as_of}: {len(spine):,} pairs in {time.perf_counter() - began:.0f} s")
    return spark.read.parquet(str(file))


def unlike_served(spark: SparkSession, folder: Path, view: View, spine: pa.Table, answers: list[Served]) -> int:
    """The number of served values that differ from a training set by arrival time."""
    frame = trained(spark, folder, view, spine, "arrival")
    rows = frame.where(f"pair < {len(answers)}").orderBy("pair").collect()
    differing = [
        (served.key, served.at.isoformat(), name, value, row[name])
        for served, row in zip(answers, rows, strict=True)
        for name, value in served.values.items()
        if not same(value, row[name])
    ]
    values = sum(len(served.values) for served in answers)
    click.echo(f"  {len(answers):,} answers, {values:,} values served: {len(differing)} differ {differing[:3] or ''}")
    return len(differing)


def unlike_brute_force(
    spark: SparkSession, folder: Path, view: View, spine: pa.Table, recording: pa.Table, by_hand: int
) -> int:
    """The number of values of a training set by event time that differ from DuckDB's over the same windows."""
    frame = trained(spark, folder, view, spine, "event")
    connection = duckdb.connect()
    connection.register("rows", frame.orderBy("pair").limit(by_hand).toArrow())
    connection.register("recording", clean(view, recording))
    # A duplicate report has the same fields, apart from the time of the report.
    connection.execute("CREATE TABLE events AS SELECT DISTINCT ON (flight_id) * FROM recording")
    differing = sum(_differing(connection, view, feature) for feature in view.features)
    click.echo(f"  {by_hand:,} of them by brute force: {differing} differ")
    connection.close()
    return differing


def _differing(connection: duckdb.DuckDBPyConnection, view: View, feature: Feature) -> int:
    (by,), hop_us, reach_us = view.by, feature.window.hop_us, feature.window.length_us + feature.window.hop_us
    start = f'epoch_us(e."at") - epoch_us(e."at") % {hop_us}'
    query = (
        f'SELECT any_value(r."{feature.name}"), {brute_force(feature)} FROM rows r LEFT JOIN events e '
        f'ON e.{by} = r.{by} AND e."at" <= r."at" AND {start} > epoch_us(r."at") - {reach_us} GROUP BY r.pair'
    )
    within = feature.aggregate.error or 0.0
    return sum(not same(*found, within=3 * within) for found in connection.execute(query).fetchall())


def brute_force(feature: Feature) -> str:
    """An aggregate of the example in SQL."""
    aggregate = feature.aggregate
    where = f" FILTER (WHERE e.{aggregate.where})" if aggregate.where is not None else ""
    match aggregate.function:
        case "count":
            return f"count(e.flight_id){where}"
        case "distinct":
            return f"count(DISTINCT e.{aggregate.column}){where}"
        case "last":
            return f'last(e.{aggregate.column} ORDER BY e."at", e.flight_id){where}'
        case "mean":
            return f"avg(e.{aggregate.column}){where}"
    return f"{aggregate.function}(e.{aggregate.column}){where}"


def same(one: Any, other: Any, within: float = 0.0) -> bool:
    if isinstance(one, bool | str | None) or isinstance(other, bool | str | None):
        return bool(one == other)
    return isclose(float(one), float(other), rel_tol=max(within, 1e-9))


if __name__ == "__main__":
    main()
