"""kill -9 of any part at any moment, under load with duplicates: no value is lost, wrong, or older than before."""

import random
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from deltalake import DeltaTable

from headrace.declare.app import load_app
from headrace.declare.features.view import View
from tests.faults.load import CARDS, SHOPS, Load, Watcher
from tests.oracle import brute
from tests.running import Running
from tests.waiting import wait_until

APP = Path(__file__).with_name("app.py")
SETTLE_LIMIT_S = 180


@pytest.mark.faults
def test_three_kills_leave_every_value_right(tmp_path: Path) -> None:
    endure(tmp_path, ["spark", "serve", "broker"], seed=3)


@pytest.mark.shows("feature view", lane="real-time", kills=20)
@pytest.mark.faults
@pytest.mark.timeout(3600)
def test_twenty_kills_leave_every_value_right(tmp_path: Path) -> None:
    dice = random.Random(20)
    endure(tmp_path, [dice.choice(["spark", "serve", "broker", "stream", "lake"]) for _ in range(20)], seed=20)


def endure(tmp_path: Path, parts: Sequence[str], seed: int) -> None:
    dice = random.Random(seed)
    with Running(APP, tmp_path / "state", "--checkpoint", "10s", "--lake-every", "5s") as running:
        running.wait_until_ready()
        load, watcher = Load(running.broker, seed), Watcher(running)
        load.start()
        watcher.start()
        for part in parts:
            at_a_random_moment(dice)
            running.kill(part)
        running.wait_until_ready()
        load.finish()
        check_everything(running, load)
        watcher.finish()
        assert watcher.went_back == []
        assert watcher.reads > 0
        assert running.stop() == 0, running.said()


def at_a_random_moment(dice: random.Random) -> None:
    """Kills come while things run, while they start, and while they recover."""
    moment = time.monotonic() + dice.uniform(1, 12)
    wait_until(lambda: time.monotonic() > moment, 20, "a random moment")


def check_everything(running: Running, load: Load) -> None:
    """Check that every value of every entity equals brute force over the sent events, and that the ledger balances."""
    app = load_app(str(APP))
    wanted = [(app.view("ByCard"), CARDS), (app.view("ByShop"), SHOPS)]
    at_us = max(event["at"] for event in load.events)
    wait_until(
        lambda: not any(wrong_values(running, view, keys, load, at_us) for view, keys in wanted),
        SETTLE_LIMIT_S,
        "every value to be right",
    )
    events = running.events("taps")
    assert events["in"] == events["clean"] == load.sent
    assert events["late"] == events["dead"] == 0
    for table in ("bronze/taps", "silver/taps"):
        folder = running.state / "lake" / table
        wait_until(lambda folder=folder: rows_in(folder) >= load.sent, SETTLE_LIMIT_S, f"{table} to land")
        places = places_in(folder)
        assert len(places) == len(set(places)) == load.sent


def rows_in(table: Path) -> int:
    """How many rows a table has, by its log alone."""
    return sum(pa.table(DeltaTable(table).get_add_actions(flatten=True))["num_records"].to_pylist())


def places_in(table: Path) -> list[tuple[int, int]]:
    """The raw offset of each row of a table."""
    rows = DeltaTable(table).to_pyarrow_table(columns=["hr_partition", "hr_offset"])
    return list(zip(rows["hr_partition"].to_pylist(), rows["hr_offset"].to_pylist(), strict=True))


def wrong_values(running: Running, view: View, keys: Sequence[str], load: Load, at_us: int) -> list[Any]:
    """Where the server and brute force differ."""
    rows = running.features(view.name, keys, at_us // 1000)
    return [
        (key, name, row["values"][name], expected.value)
        for key, row in zip(keys, rows, strict=True)
        for name, expected in brute.features(view, load.events, (key,), at_us).items()
        if row["values"][name] != expected.value
    ]
