"""A real MLflow server over HTTP gets what a folder gets; skipped without its separate environment."""

import os
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from headrace.embedded_servers.child_process import ChildProcess
from headrace.embedded_servers.ports import HOST, free_port, is_listening
from headrace.models.versions.mlflow_registry import MLFLOW_DEFAULTS, MlflowRegistry
from tests.models.cards import card_for, versions_of
from tests.models.networks import offset
from tests.waiting import patiently, wait_until

mlflow = pytest.importorskip("mlflow", reason="needs headrace[mlflow]")

PROGRAM = "HEADRACE_MLFLOW_SERVER"


@pytest.fixture
def uri(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """The address of an MLflow server, whose database and artifacts are in a folder."""
    program = shutil.which(os.environ.get(PROGRAM, ""))
    if program is None:
        pytest.skip(f"no MLflow server: uv venv v; uv pip install --python v mlflow; {PROGRAM}=v/bin/mlflow")
    for name, value in MLFLOW_DEFAULTS.items():
        monkeypatch.setenv(name, value)
    folder, port = tmp_path / "server", free_port()
    folder.mkdir()
    stores = ["--backend-store-uri", f"sqlite:///{folder}/mlflow.db", "--artifacts-destination", f"{folder}/artifacts"]
    command = [program, "server", "--host", HOST, "--port", str(port), "--workers", "1", *stores]
    server = ChildProcess(command, folder=folder, output=folder / "server.log")
    server.start()
    try:
        wait_until(lambda: is_listening(HOST, port), 120, "MLflow to answer", (folder / "server.log").read_text)
        yield f"http://{HOST}:{port}"
    finally:
        server.stop(grace_s=patiently(20))


def test_a_server_has_every_version_its_file_its_card_and_the_champion(uri: str, tmp_path: Path) -> None:
    versions = versions_of(tmp_path, offset(1_000), offset(2_000))
    assert MlflowRegistry(uri).publish_versions(versions) == ["1", "2"]
    assert MlflowRegistry(uri).publish_versions(versions) == []
    versions.add(offset(3_000), card_for(offset(3_000)))
    versions.promote("3")
    assert MlflowRegistry(uri).publish_versions(versions) == ["3"]
    client = mlflow.MlflowClient(tracking_uri=uri, registry_uri=uri)
    assert len(client.search_model_versions("name = 'fraud'")) == 3
    champion = client.get_model_version_by_alias("fraud", "champion")
    assert champion.tags["headrace.version"] == "3"
    run = client.get_run(champion.run_id)
    assert (run.info.status, run.data.metrics["auc"], run.data.params["rows_train"]) == ("FINISHED", 0.75, "8")
    folder = Path(client.download_artifacts(champion.run_id, "model", str(tmp_path)))
    assert (folder / "model.onnx").read_bytes() == offset(3_000)
    assert (folder / "card.json").read_text() == versions.load_card("3").to_json()
    versions.rollback()
    MlflowRegistry(uri).publish_versions(versions)
    assert client.get_model_version_by_alias("fraud", "champion").tags["headrace.version"] == "1"
