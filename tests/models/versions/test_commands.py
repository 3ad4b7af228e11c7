"""From a spine to a champion to scores, by the commands: Spark's scores equal those without Spark."""

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
from headrace.declare.app import load_app
from headrace.lake.ingestion.table_mapping import silver_mapping
from headrace.lake.lake_table import LakeTable, TablePosition
from headrace.models.versions.mlflow_registry import MLFLOW_DEFAULTS
from headrace.models.versions.version_loader import load_champion
from tests.models.app import payments
from tests.models.cards import versions_of
from tests.models.networks import FLOAT, INT64, named

APP = str(Path(__file__).parents[1] / "app.py")
NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)


@pytest.fixture(autouse=True)
def habits(monkeypatch: pytest.MonkeyPatch) -> None:
    """What a command sets for MLflow ends with its test."""
    for name, value in MLFLOW_DEFAULTS.items():
        monkeypatch.setenv(name, value)


def published(state: Path) -> dict[str, str]:
    """What MLflow has: versions, and the aliases of each."""
    mlflow = pytest.importorskip("mlflow", reason="needs headrace[mlflow]")
    client = mlflow.MlflowClient(*[(state / "mlflow").as_uri()] * 2)
    found = client.search_model_versions("name = 'fraud'")
    return {one.tags["headrace.version"]: ",".join(one.aliases) for one in found}


def write_lake(lake: Path, rows: int) -> None:
    """Payments as Spark would have landed them, one of them twice."""
    chance = np.random.default_rng(0)
    table = LakeTable(lake, silver_mapping(payments))
    table.prepare()
    moments = [NOON + timedelta(seconds=float(second)) for second in np.sort(chance.uniform(0, 40_000, rows))]
    events = {
        "id": [f"p{min(number, rows - 2)}" for number in range(rows)],
        "card": chance.choice([f"c{number}" for number in range(20)], rows),
        "country": chance.choice(["FR", "DE"], rows),
        "amount": chance.exponential(40, rows),
        "at": pa.array(moments, pa.timestamp("us", "UTC")),
        "hr_arrival": pa.array(moments, pa.timestamp("us", "UTC")),
        "hr_partition": pa.array([0] * rows, pa.int32()),
        "hr_offset": list(range(rows)),
    }
    file = table.folder / "hr_day=2026-01-01" / "landed.parquet"
    file.parent.mkdir()
    pq.write_table(pa.table(events), file)
    table.commit([file], {0: TablePosition(rows - 1, rows - 1)})


def write_spine(file: Path, rows: int) -> None:
    chance = np.random.default_rng(1)
    amount = chance.exponential(40, rows)
    moments = [NOON + timedelta(seconds=float(second)) for second in chance.uniform(0, 40_000, rows)]
    spine = {
        "card": chance.choice([f"c{number}" for number in range(25)], rows),  # five of them were never seen
        "at": pa.array(moments, pa.timestamp("us", "UTC")),
        "amount": amount,
        "label": (amount > 60) ^ (chance.random(rows) < 0.05),
        "row": list(range(rows)),
    }
    pq.write_table(pa.table(spine), file)


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("models")
    write_lake(folder / "lake", 2_000)
    write_spine(folder / "spine.parquet", 1_000)
    return folder


def run(place: Path, *words: str, fails: bool = False) -> Any:
    said = CliRunner().invoke(main, [*words, "--state", str(place)])
    assert (said.exit_code != 0) == fails, said.output
    return said.output if fails else json.loads(said.stdout) if "--json" in words else said.stdout


@pytest.fixture
def session(spark: SparkSession, monkeypatch: pytest.MonkeyPatch) -> None:
    """The session of the whole run is the one the commands get."""

    @contextmanager
    def shared(_: str | None) -> Iterator[SparkSession]:
        yield spark

    monkeypatch.setattr("headrace.cli.commands.models.train.batch_session", shared)
    monkeypatch.setattr("headrace.cli.commands.models.score.batch_session", shared)


def test_a_model_is_trained_promoted_and_scores_on_spark_as_it_does_without(session: None, place: Path) -> None:
    spine = ["--spine", str(place / "spine.parquet"), "--lake", str(place / "lake")]
    kept = ["--registry", "mlflow", "--out", str(place / "kept.parquet")]
    card = run(place, "train", APP, "fraud", *spine, *kept, "--json")
    assert pq.read_table(place / "kept.parquet").num_rows == 1_000
    assert published(place) == {"1": "champion"}
    assert card["metrics"]["auc"] > 0.8
    assert (card["rows"]["train"], card["rows"]["test"]) == (800, 200)
    assert "the champion is version 1" in run(place, "train", APP, "fraud", *spine, "--test", "0.5")
    assert run(place, "models", "promote", APP, "fraud", "2", "--json")["champion"] == "2"

    done = run(place, "score", APP, "fraud", *spine, "--out", str(place / "scored.parquet"), "--json")
    assert done["version"] == "2"
    assert done["views"]["CardSpend"]["of an entity never seen"] > 100
    rows = pq.read_table(place / "scored.parquet").to_pylist()
    assert sorted(row["row"] for row in rows) == list(range(1_000))
    scorer = load_champion(load_app(APP).model("fraud"), place).scorer
    alone = scorer.score_rows([[row[column.name] for column in scorer.columns] for row in rows])
    assert alone.tolist() == [row["score"] for row in rows]
    assert {row["model_version"] for row in rows} == {"2"}
    for row in rows:
        assert row["decision"] == ("block" if row["score"] >= 0.8 else "review" if row["score"] >= 0.3 else None)
    assert {row["decision"] for row in rows} == {None, "review", "block"}

    other = run(place, "score", APP, "fraud", *spine, "--out", str(place / "first.parquet"), "--version", "1", "--json")
    assert other["version"] == "1"

    listed = run(place, "models", "ls", APP, "--json")
    assert [(one["version"], one["champion"]) for one in listed] == [("1", False), ("2", True), ("ready.onnx", True)]
    assert "auc" in run(place, "models", "ls", APP)
    assert "ratio" in run(place, "models", "show", APP, "fraud")
    assert "version 1 is the champion" in run(place, "models", "rollback", APP, "fraud")
    assert "no champion before 1" in run(place, "models", "rollback", APP, "fraud", fails=True)
    assert run(place, "models", "show", APP, "fraud", "1", "--json") == card


@pytest.fixture
def three(tmp_path: Path) -> Path:
    """A state folder with three versions, the first of them champion."""
    versions_of(tmp_path, *[named(amount=FLOAT, payments_1h=INT64)] * 3)
    return tmp_path


def test_challengers_are_named_shown_and_ended(three: Path) -> None:
    assert "version 1 is the champion; version 2: shadow" in run(three, "models", "shadow", APP, "fraud", "2")
    said = run(three, "models", "split", APP, "fraud", "3", "12.5%", "--json")
    assert (said["champion"], said["challengers"]) == ("1", {"2": 0.0, "3": 0.125})
    listed = run(three, "models", "ls", APP, "--json")
    assert [one["role"] for one in listed] == ["champion", "shadow", "split 12.5%", "champion"]
    assert "split 12.5%" in run(three, "models", "ls", APP)
    assert "role                shadow" in run(three, "models", "show", APP, "fraud", "2")
    assert "Version 3 of model 'fraud' has a share" in run(
        three, "models", "split", APP, "fraud", "2", "1%", fails=True
    )
    assert run(three, "models", "split", APP, "fraud", "3", "20%", "--json")["challengers"]["3"] == 0.2
    promoted = run(three, "models", "promote", APP, "fraud", "3", "--json")
    assert (promoted["champion"], promoted["challengers"]) == ("3", {"2": 0.0})
    assert run(three, "models", "shadow", APP, "fraud", "2", "--off", "--json")["challengers"] == {}
    back = run(three, "models", "rollback", APP, "fraud", "--json")
    assert [(one["did"], one["version"]) for one in back["history"]] == [
        ("promote", "1"), ("shadow", "2"), ("split", "3"), ("split", "3"), ("promote", "3"), ("withdraw", "2"),
        ("rollback", "1"),
    ]  # fmt: skip
    assert [one.get("share") for one in back["history"][2:4]] == [0.125, 0.2]


@pytest.mark.parametrize("share", ["0%", "10", "101%", "10 %", "nan%", "1e1%", "0.1", "١%"])
def test_what_is_no_share_is_refused(three: Path, share: str) -> None:
    assert "is no share of the keys" in run(three, "models", "split", APP, "fraud", "2", share, fails=True)


CANNOT_CHALLENGE = {
    ("shadow", "1"): "Version 1 of model 'fraud' is the champion",
    ("shadow", "9"): "has no version '9'",
    ("shadow", "2", "--off"): "Version '2' of model 'fraud' does not challenge its champion: no version does",
}


@pytest.mark.parametrize("words", CANNOT_CHALLENGE, ids=" ".join)
def test_who_cannot_challenge_is_refused(three: Path, words: tuple[str, ...]) -> None:
    command, *rest = words
    assert CANNOT_CHALLENGE[words] in run(three, "models", command, APP, "fraud", *rest, fails=True)


def test_the_registry_is_told_who_is_champion(three: Path) -> None:
    assert run(three, "models", "promote", APP, "fraud", "2", "--registry", "mlflow", "--json")["champion"] == "2"
    assert published(three) == {"1": "", "2": "champion", "3": ""}
    run(three, "models", "rollback", APP, "fraud", "--registry", "mlflow")
    assert published(three) == {"1": "champion", "2": "", "3": ""}


def test_the_registry_is_read_from_the_file_of_settings(three: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(three)
    Path("headrace.toml").write_text('registry = "mlflow"\n')
    run(three, "models", "promote", APP, "fraud", "3")
    assert published(three) == {"1": "", "2": "", "3": "champion"}


def test_a_registry_that_fails_is_said_and_told_later(three: Path) -> None:
    down = "mlflow:http://anna:secret@127.0.0.1:1"
    said = CliRunner().invoke(main, ["models", "promote", APP, "fraud", "2", "--registry", down, "--state", str(three)])
    assert (said.exit_code, "version 2 is the champion" in said.stdout) == (0, True)
    assert "MLflow at http://…@127.0.0.1:1 did not accept model 'fraud'" in said.stderr
    assert "headrace models publish APP fraud" in said.stderr
    assert "secret" not in said.output
    assert "did not accept model" in run(three, "models", "publish", APP, "fraud", "--registry", down, fails=True)
    assert run(three, "models", "publish", APP, "fraud", "--registry", "mlflow", "--json")["published"] == [*"123"]
    assert "0 versions were new" in run(three, "models", "publish", APP, "fraud", "--registry", "mlflow")
    assert published(three) == {"1": "", "2": "champion", "3": ""}


def test_a_training_set_of_views_is_written_as_before(session: None, place: Path) -> None:
    spine = ["--spine", str(place / "spine.parquet"), "--lake", str(place / "lake")]
    said = run(place, "train", APP, "CardSpend", *spine, "--out", str(place / "train.parquet"), "--json")
    assert sum(said["views"]["CardSpend"].values()) == 1_000
    assert pq.read_table(place / "train.parquet").num_rows == 1_000


def test_a_plan_binds_every_model_and_refuses_what_does_not_fit(tmp_path: Path) -> None:
    app = tmp_path / "app.py"
    app.write_text(Path(APP).read_text())
    assert "REFUSED: " in run(tmp_path, "plan", str(app), fails=True)
    (tmp_path / "ready.onnx").write_bytes(named(amount=FLOAT, age=FLOAT))
    assert "asks for 'age'" in run(tmp_path, "plan", str(app), fails=True)
    (tmp_path / "ready.onnx").write_bytes(named(amount=FLOAT, payments_1h=INT64))
    planned = {one["model"]: one for one in run(tmp_path, "plan", str(app), "--json") if "model" in one}
    assert planned["fraud"]["version"] is None
    assert planned["ready"]["reads"] == ["amount", "payments_1h"]
    assert (planned["fraud"]["scores"], planned["fraud"]["writes"]) == ("payments", "fraud.predictions")
    assert "no champion yet" in run(tmp_path, "plan", str(app))
    assert "writes fraud.predictions" in run(tmp_path, "plan", str(app))


def test_an_app_without_models_has_none(tmp_path: Path) -> None:
    (tmp_path / "app.py").write_text(Path(APP).read_text().split("fraud =")[0])
    assert run(tmp_path, "models", "ls", str(tmp_path / "app.py")).strip() == "no models"


REFUSED: list[tuple[list[str], str]] = [
    (["train", APP, "fraud", "CardSpend", "--spine", "s.parquet"], "train one model at a time"),
    (["train", APP, "ready", "--spine", "s.parquet"], "'ready' has no train=, and so nothing to train"),
    (["train", APP, "nobody", "--spine", "s.parquet"], "no view 'nobody'"),
    (["train", APP, "CardSpend", "--spine", "s.parquet"], "--out is missing"),
    (["train", APP, "fraud", "--spine", "s.xls"], "its kind is not known"),
    (["score", APP, "fraud", "--spine", "s.parquet", "--out", "o.parquet"], "has no champion"),
    (["score", APP, "ready", "--spine", "s.parquet", "--out", "o.parquet"], "Put the ONNX file there"),
    (["score", APP, "nobody", "--spine", "s.parquet", "--out", "o.parquet"], "It declares fraud, ready"),
    (["models", "promote", APP, "fraud", "7"], "has no version '7'"),
    (["models", "show", APP, "fraud"], "has no champion"),
    (["models", "rollback", APP, "ready"], "is ready.onnx, as declared"),
    (["models", "shadow", APP, "ready", "1"], "is ready.onnx, as declared"),
    (["models", "publish", APP, "fraud"], "--registry is missing"),
    (["models", "promote", APP, "fraud", "1", "--registry", "wandb:x"], "--registry 'wandb:x' is not known"),
    (["train", APP, "fraud", "--spine", "s.parquet", "--registry", "wandb"], "--registry 'wandb' is not known"),
    (["train", APP, "fraud", "--spine", "s.parquet", "--out", "o.xls"], "its kind is not known"),
]


@pytest.mark.parametrize(("words", "said"), REFUSED, ids=[" ".join(words[0:1] + words[2:4]) for words, _ in REFUSED])
def test_what_cannot_be_done_is_said(tmp_path: Path, words: list[str], said: str) -> None:
    assert said in run(tmp_path, *words, fails=True)
