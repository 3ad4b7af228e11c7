"""Publishes versions to MLflow: each as a run and a model version, the champion under the alias `champion`."""

import hashlib
import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from headrace.errors import HeadraceError
from headrace.models.versions.model_card import ModelCard
from headrace.models.versions.model_registry import ModelRegistry, ModelRegistryFailed, mask_credentials
from headrace.models.versions.version_store import VersionStore

if TYPE_CHECKING:
    from mlflow import MlflowClient

CHAMPION_ALIAS = "champion"
CARD_TAG = "headrace.card"
# Defaults: no telemetry, no address with its password in output, no minutes of retries, and MLflow's file store, which
# it has deprecated.
MLFLOW_DEFAULTS = {
    "MLFLOW_DISABLE_TELEMETRY": "true",
    "MLFLOW_SUPPRESS_PRINTING_URL_TO_STDOUT": "true",
    "MLFLOW_HTTP_REQUEST_MAX_RETRIES": "1",
    "MLFLOW_HTTP_REQUEST_TIMEOUT": "10",
    "MLFLOW_ALLOW_FILE_STORE": "true",
}


class MlflowRegistry(ModelRegistry):
    """MLflow: a server, a database or a folder."""

    @classmethod
    def default_uri(cls, state: Path) -> str:
        return (state / "mlflow").resolve().as_uri()

    def publish_versions(self, versions: VersionStore) -> list[str]:
        try:
            return _publish_missing(_create_client(self.uri), versions)
        except HeadraceError:
            raise
        except Exception as failure:  # noqa: BLE001 - MLflow, its stores and its transports raise many errors
            raise ModelRegistryFailed(
                f"MLflow at {mask_credentials(self.uri)} did not accept model {versions.model!r}: "
                f"{mask_credentials(str(failure))[:300]}. "
                f"Once that is fixed: headrace models publish APP {versions.model}."
            ) from None


def _create_client(uri: str) -> "MlflowClient":
    for name, value in MLFLOW_DEFAULTS.items():
        os.environ.setdefault(name, value)
    from mlflow import MlflowClient  # noqa: PLC0415 - two seconds to import, and it looks at these variables then

    return MlflowClient(tracking_uri=uri, registry_uri=uri)


def _publish_missing(client: "MlflowClient", versions: VersionStore) -> list[str]:
    name, published, fingerprints = versions.model, list[str](), dict[str, str]()
    if not client.search_registered_models(f"name = '{name}'"):
        client.create_registered_model(name, description="Trained by Headrace.")
    registered = dict(_registered_versions(client, name))
    for version in versions.list_versions():
        card = versions.load_card(version)
        fingerprints[version] = _card_fingerprint(card)
        if fingerprints[version] not in registered:
            registered[fingerprints[version]] = _register_version(client, versions, card)
            published.append(version)
    champion = versions.load_roles().champion
    if champion is not None:
        client.set_registered_model_alias(name, CHAMPION_ALIAS, registered[fingerprints[champion]])
    return published


def _registered_versions(client: "MlflowClient", name: str) -> Iterator[tuple[str, str]]:
    """The registered versions of a model in MLflow: MLflow's numbers by the fingerprints of cards."""
    token = None
    while True:
        page = client.search_model_versions(f"name = '{name}'", page_token=token)
        yield from (
            (registered_version.tags.get(CARD_TAG, ""), str(registered_version.version)) for registered_version in page
        )
        token = page.token
        if not token:
            return


def _card_fingerprint(card: ModelCard) -> str:
    """The identity of a version whatever its number: another folder has a version 1 as well."""
    return hashlib.sha256(card.to_json().encode()).hexdigest()[:16]


def _register_version(client: "MlflowClient", versions: VersionStore, card: ModelCard) -> str:
    tags = {"headrace.version": card.version, CARD_TAG: _card_fingerprint(card)}
    run = client.create_run(
        _get_or_create_experiment(client, card.model), run_name=f"{card.model} {card.version}", tags=tags
    )
    run_id = run.info.run_id
    try:
        _log_card(client, run_id, versions, card)
    except BaseException:
        with suppress(Exception):
            client.set_terminated(run_id, "FAILED")
        raise
    client.set_terminated(run_id)
    model_version = client.create_model_version(card.model, f"{run.info.artifact_uri}/model", run_id, tags=tags)
    return str(model_version.version)


def _get_or_create_experiment(client: "MlflowClient", name: str) -> str:
    experiment = client.get_experiment_by_name(name)
    return str(client.create_experiment(name) if experiment is None else experiment.experiment_id)


def _log_card(client: "MlflowClient", run_id: str, versions: VersionStore, card: ModelCard) -> None:
    for name, value in _card_params(card).items():
        client.log_param(run_id, name, value)
    for name, number in (card.metrics | {"largest_difference": card.largest_difference}).items():
        if number is not None:
            client.log_metric(run_id, name, number)
    with tempfile.TemporaryDirectory() as folder:
        _write_model(Path(folder), run_id, versions, card)
        client.log_artifacts(run_id, folder, "model")


def _card_params(card: ModelCard) -> dict[str, Any]:
    """The parameters of a version's training, one value each."""
    single_values = {"estimator": card.estimator, "kind": card.kind, "label": card.label, "as_of": card.as_of}
    time_ranges = {
        f"{part}_{end}": time_text for part, time_range in card.window.items() for end, time_text in time_range.items()
    }
    counts = {f"rows_{part}": count for part, count in card.rows.items()}
    thresholds = {f"threshold_{name}": threshold for name, threshold in card.thresholds.items()}
    return {**single_values, "data_sha256": card.data_sha256, **time_ranges, **counts, **thresholds}


def _write_model(folder: Path, run_id: str, versions: VersionStore, card: ModelCard) -> None:
    """Write a version in the layout of MLflow's ONNX models, so that its tools load it."""
    from mlflow.models import Model  # noqa: PLC0415

    (folder / "model.onnx").write_bytes(versions.load_content(card.version))
    shutil.copy(versions.folder / card.version / "card.json", folder)
    mlflow_model = Model(artifact_path="model", run_id=run_id)
    onnx = str(card.libraries.get("onnx", ""))
    mlflow_model.add_flavor("onnx", onnx_version=onnx, data="model.onnx", providers=["CPUExecutionProvider"])
    mlflow_model.add_flavor("python_function", loader_module="mlflow.onnx", data="model.onnx")
    mlflow_model.save(str(folder / "MLmodel"))
