"""MLflow beside the folder of versions: each a run and a model version, the champion under the alias `champion`.

The folder is what is served. MLflow is told what is in it as often as anybody likes: what it has, it is not told again.
"""

import hashlib
import os
import re
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from headrace.errors import HeadraceError
from headrace.score.card import Card
from headrace.score.versions import Versions

if TYPE_CHECKING:
    from mlflow import MlflowClient

ALIAS = "champion"
MARK = "headrace.card"
# Unless told otherwise: no word to others, no address with its password printed, no minutes of retries, and its store
# of files, which it has retired.
HABITS = {
    "MLFLOW_DISABLE_TELEMETRY": "true",
    "MLFLOW_SUPPRESS_PRINTING_URL_TO_STDOUT": "true",
    "MLFLOW_HTTP_REQUEST_MAX_RETRIES": "1",
    "MLFLOW_HTTP_REQUEST_TIMEOUT": "10",
    "MLFLOW_ALLOW_FILE_STORE": "true",
}
_SECRET = re.compile(r"//[^/@\s]*@")


class UnknownRegistry(HeadraceError):
    """A registry that is not MLflow."""


class RegistryFailed(HeadraceError):
    """A registry that could not be told of a version or a champion."""


def registry_uri(written: str, state: Path) -> str:
    """The address in `mlflow:URI`; that of `mlflow` alone is a folder beside the versions."""
    kind, _, uri = written.partition(":")
    if kind != "mlflow":
        raise UnknownRegistry(
            f"--registry {_masked(written)!r} is not known. Write mlflow, or mlflow:http://host:5000."
        )
    return uri or (state / "mlflow").resolve().as_uri()


def publish(uri: str, versions: Versions) -> list[str]:
    """Tell MLflow of every version it does not have, and who is champion; gives the versions that were new to it."""
    try:
        return _publish(_client(uri), versions)
    except HeadraceError:
        raise
    except Exception as failure:  # noqa: BLE001 - MLflow, its stores and its transports raise what they like
        raise RegistryFailed(
            f"MLflow at {_masked(uri)} was not told of model {versions.model!r}: {_masked(str(failure))[:300]}. "
            f"Once that is mended: headrace models publish APP {versions.model}."
        ) from None


def _masked(text: str) -> str:
    return _SECRET.sub("//…@", " ".join(text.split())).rstrip(".")


def _client(uri: str) -> "MlflowClient":
    for name, value in HABITS.items():
        os.environ.setdefault(name, value)
    try:
        from mlflow import MlflowClient  # noqa: PLC0415 - an extra, and two seconds to import
    except ModuleNotFoundError as missing:
        raise RegistryFailed(
            f"{missing.name} is not installed, and the registry needs it: pip install 'headrace[mlflow]'."
        ) from missing
    return MlflowClient(tracking_uri=uri, registry_uri=uri)


def _publish(client: "MlflowClient", versions: Versions) -> list[str]:
    name, new, marks = versions.model, list[str](), dict[str, str]()
    if not client.search_registered_models(f"name = '{name}'"):
        client.create_registered_model(name, description="Trained by Headrace.")
    there = dict(_registered(client, name))
    for version in versions.names():
        card = versions.card(version)
        marks[version] = _mark(card)
        if marks[version] not in there:
            there[marks[version]] = _register(client, versions, card)
            new.append(version)
    champion = versions.champion().champion
    if champion is not None:
        client.set_registered_model_alias(name, ALIAS, there[marks[champion]])
    return new


def _registered(client: "MlflowClient", name: str) -> Iterator[tuple[str, str]]:
    """What MLflow has of a model: the marks of cards, and its own numbers for them."""
    token = None
    while True:
        page = client.search_model_versions(f"name = '{name}'", page_token=token)
        yield from ((one.tags.get(MARK, ""), str(one.version)) for one in page)
        token = page.token
        if not token:
            return


def _mark(card: Card) -> str:
    """By what a version is known whatever its number: another folder has a version 1 as well."""
    return hashlib.sha256(card.text().encode()).hexdigest()[:16]


def _register(client: "MlflowClient", versions: Versions, card: Card) -> str:
    tags = {"headrace.version": card.version, MARK: _mark(card)}
    run = client.create_run(_experiment(client, card.model), run_name=f"{card.model} {card.version}", tags=tags)
    run_id = run.info.run_id
    try:
        _log(client, run_id, versions, card)
    except BaseException:
        with suppress(Exception):
            client.set_terminated(run_id, "FAILED")
        raise
    client.set_terminated(run_id)
    made = client.create_model_version(card.model, f"{run.info.artifact_uri}/model", run_id, tags=tags)
    return str(made.version)


def _experiment(client: "MlflowClient", name: str) -> str:
    found = client.get_experiment_by_name(name)
    return str(client.create_experiment(name) if found is None else found.experiment_id)


def _log(client: "MlflowClient", run_id: str, versions: Versions, card: Card) -> None:
    for name, value in _params(card).items():
        client.log_param(run_id, name, value)
    for name, number in (card.metrics | {"largest_difference": card.largest_difference}).items():
        if number is not None:
            client.log_metric(run_id, name, number)
    with tempfile.TemporaryDirectory() as folder:
        _write_model(Path(folder), run_id, versions, card)
        client.log_artifacts(run_id, folder, "model")


def _params(card: Card) -> dict[str, Any]:
    """What a version was made of, one value each."""
    single = {"estimator": card.estimator, "kind": card.kind, "label": card.label, "as_of": card.as_of}
    spans = {f"{part}_{end}": moment for part, span in card.window.items() for end, moment in span.items()}
    counts = {f"rows_{part}": count for part, count in card.rows.items()}
    thresholds = {f"threshold_{name}": least for name, least in card.thresholds.items()}
    return {**single, "data_sha256": card.data_sha256, **spans, **counts, **thresholds}


def _write_model(folder: Path, run_id: str, versions: Versions, card: Card) -> None:
    """A version as MLflow's own ONNX models lie in a folder, so that its tools load it."""
    from mlflow.models import Model  # noqa: PLC0415

    (folder / "model.onnx").write_bytes(versions.content(card.version))
    shutil.copy(versions.folder / card.version / "card.json", folder)
    described = Model(artifact_path="model", run_id=run_id)
    onnx = str(card.libraries.get("onnx", ""))
    described.add_flavor("onnx", onnx_version=onnx, data="model.onnx", providers=["CPUExecutionProvider"])
    described.add_flavor("python_function", loader_module="mlflow.onnx", data="model.onnx")
    described.save(str(folder / "MLmodel"))
