"""`headrace train` without a spine and `headrace retrain` train on the labels in the lake."""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from pyspark.sql import SparkSession

from headrace.cli import main
from tests.monitoring.lake_tables import ROWS, land_payments

APP = str(Path(__file__).with_name("app.py"))


@pytest.fixture
def place(tmp_path: Path, spark: SparkSession, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A lake of payments, of which the large ones were charged back; and the run's own session for the commands."""
    land_payments(tmp_path / "lake")

    @contextmanager
    def shared(_: str | None) -> Iterator[SparkSession]:
        yield spark

    monkeypatch.setattr("headrace.cli.training_options.batch_session", shared)
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
