"""`headrace train` without a spine and `headrace retrain`: what the labels in the lake say is what is trained on."""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from click.testing import CliRunner
from pyspark.sql import SparkSession

from headrace.cli import main
from headrace.declare.stream import Stream
from headrace.lake.delta import LakeTable, Position
from headrace.lake.landing import silver
from tests.evaluate.app import chargebacks, payments

APP = str(Path(__file__).with_name("app.py"))
NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)
ROWS = 1_500


def land(lake: Path, stream: Stream, columns: dict[str, Any], moments: list[datetime]) -> None:
    """Events as Spark would have landed them."""
    table = LakeTable(lake, silver(stream))
    table.prepare()
    times = pa.array(moments, pa.timestamp("us", "UTC"))
    places = {"hr_partition": pa.array([0] * len(moments), pa.int32()), "hr_offset": list(range(len(moments)))}
    file = table.folder / "hr_day=2026-01-01" / "landed.parquet"
    file.parent.mkdir()
    pq.write_table(pa.table(columns | {"at": times, "hr_arrival": times} | places), file)
    table.commit([file], {0: Position(len(moments) - 1, len(moments) - 1)})


@pytest.fixture
def place(tmp_path: Path, spark: SparkSession, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A lake of payments, of which the large ones were charged back; and the run's own session for the commands."""
    chance = np.random.default_rng(0)
    moments = [NOON + timedelta(seconds=float(second)) for second in np.sort(chance.uniform(0, 30_000, ROWS))]
    amount = chance.exponential(40, ROWS)
    ids = [f"p{number}" for number in range(ROWS)]
    cards = chance.choice([f"c{number}" for number in range(20)], ROWS)
    land(tmp_path / "lake", payments, {"id": ids, "card": cards, "amount": amount}, moments)
    bad = [number for number in range(ROWS) if amount[number] > 60]
    told = {"id": [ids[number] for number in bad], "fraud": [True] * len(bad)}
    land(tmp_path / "lake", chargebacks, told, [moments[number] + timedelta(minutes=5) for number in bad])

    @contextmanager
    def shared(_: str | None) -> Iterator[SparkSession]:
        yield spark

    monkeypatch.setattr("headrace.cli.training.batch_session", shared)
    return tmp_path


def run(place: Path, *words: str, fails: bool = False) -> Any:
    said = CliRunner().invoke(main, [*words, "--state", str(place), "--lake", str(place / "lake")])
    assert (said.exit_code != 0) == fails, said.output
    return said.output if fails else json.loads(said.stdout)


def test_a_model_is_trained_on_its_labels_and_anew_and_the_same_is_not_better(place: Path) -> None:
    card = run(place, "train", APP, "fraud", "--json")
    assert card["metrics"]["auc"] > 0.95
    assert card["rows"]["train"] + card["rows"]["embargo"] + card["rows"]["test"] == ROWS
    again = run(place, "retrain", APP, "fraud", "--why", "a test", "--json")
    assert (again["version"], again["against"], again["promoted"]) == ("2", "1", False)
    assert again["challenger"] == again["champion"]
    assert again["rows"] == card["rows"]["test"]
    assert "go with --spine" in run(place, "train", APP, "fraud", "--as-of", "event", fails=True)
