"""MLflow has every version once, with the content of its card, and loads it; the folder is authoritative."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from headrace.models.versions.mlflow_registry import MLFLOW_DEFAULTS, MlflowRegistry
from headrace.models.versions.model_registry import ModelRegistryFailed, open_model_registry
from headrace.models.versions.version_store import VersionStore
from tests.models.cards import card_for, versions_of
from tests.models.networks import offset

mlflow = pytest.importorskip("mlflow", reason="needs headrace[mlflow]")


@pytest.fixture
def uri(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    for name, value in MLFLOW_DEFAULTS.items():
        monkeypatch.setenv(name, value)
    return open_model_registry("mlflow", tmp_path).uri


@pytest.fixture
def versions(tmp_path: Path) -> VersionStore:
    return versions_of(tmp_path, offset(1_000), offset(2_000))


def client(uri: str) -> Any:
    return mlflow.MlflowClient(tracking_uri=uri, registry_uri=uri)


def test_a_version_is_a_run_and_a_model_that_mlflow_loads(versions: VersionStore, uri: str, tmp_path: Path) -> None:
    assert MlflowRegistry(uri).publish_versions(versions) == ["1", "2"]
    found = client(uri).get_model_version_by_alias("fraud", "champion")
    run = client(uri).get_run(found.run_id)
    assert (run.info.status, run.info.run_name) == ("FINISHED", "fraud 1")
    assert run.data.metrics == {"auc": 0.75, "largest_difference": 0.0}
    assert run.data.params["estimator"] == "tests.Estimator"
    assert (run.data.params["rows_train"], run.data.params["threshold_block"]) == ("8", "0.9")
    folder = Path(client(uri).download_artifacts(found.run_id, "model", str(tmp_path)))
    assert (folder / "model.onnx").read_bytes() == offset(1_000)
    assert (folder / "card.json").read_text() == versions.load_card("1").to_json()
    loaded = mlflow.pyfunc.load_model(str(folder))
    assert loaded.predict(np.array([[1, 2]], np.float32))["score"].tolist() == [[1003.0]]


def test_what_is_there_is_not_told_again_and_what_is_missing_is(versions: VersionStore, uri: str) -> None:
    MlflowRegistry(uri).publish_versions(versions)
    assert MlflowRegistry(uri).publish_versions(versions) == []
    versions.add(offset(3_000), card_for(offset(3_000)))
    versions.promote("3")
    assert MlflowRegistry(uri).publish_versions(versions) == ["3"]
    assert client(uri).get_model_version_by_alias("fraud", "champion").tags["headrace.version"] == "3"
    assert len(client(uri).search_model_versions("name = 'fraud'")) == 3


def test_versions_of_another_folder_are_others_whatever_their_numbers(
    versions: VersionStore, uri: str, tmp_path: Path
) -> None:
    MlflowRegistry(uri).publish_versions(versions)
    assert MlflowRegistry(uri).publish_versions(versions_of(tmp_path / "other", offset(7_000))) == ["1"]
    found = client(uri).get_model_version_by_alias("fraud", "champion")
    assert (str(found.version), found.tags["headrace.version"]) == ("3", "1")


def test_a_version_that_was_cut_short_is_told_whole_next_time(
    versions: VersionStore, uri: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: Any) -> None:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as failing:
        failing.setattr("mlflow.MlflowClient.log_artifacts", full)
        with pytest.raises(ModelRegistryFailed, match=r"No space left on device\. Once that is fixed"):
            MlflowRegistry(uri).publish_versions(versions)
    assert client(uri).search_model_versions("name = 'fraud'") == []
    assert MlflowRegistry(uri).publish_versions(versions) == ["1", "2"]
    runs = client(uri).search_runs([client(uri).get_experiment_by_name("fraud").experiment_id])
    assert sorted(run.info.status for run in runs) == ["FAILED", "FINISHED", "FINISHED"]


@pytest.mark.parametrize(
    ("address", "said"),
    [
        ("sqlite:///m.db", "(unsupported URI|alembic)"),
        ("http://127.0.0.1:1", "Connection"),
        ("file:///proc/no", "No such file"),
    ],
)
def test_a_store_that_is_not_there_is_said(versions: VersionStore, uri: str, address: str, said: str) -> None:
    with pytest.raises(ModelRegistryFailed, match=f"MLflow at {address} did not accept model 'fraud'.*{said}"):
        MlflowRegistry(address).publish_versions(versions)
