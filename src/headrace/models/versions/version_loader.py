"""Loads the version of a model that scores: the promoted one, or the declared file."""

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from headrace.declare.models.model import Model
from headrace.models.inference.onnx_model import read_model
from headrace.models.inference.scorer import RowScorer, Scorer, load_scorer
from headrace.models.versions.roles import VersionRoles
from headrace.models.versions.version_store import ModelVersionError, VersionStore


@dataclass(frozen=True)
class LoadedVersion:
    """A version that is ready to score."""

    version: str
    scorer: RowScorer


@dataclass(frozen=True)
class LoadedOnnxVersion(LoadedVersion):
    """A version that is an ONNX file, with its bytes."""

    scorer: Scorer
    content: bytes


NO_VERSIONS: Mapping[str, LoadedOnnxVersion] = {}


def load_champion(model: Model, state: Path) -> LoadedOnnxVersion:
    """The champion of a model; for a declared file that is the file itself."""
    if model.file is not None:
        return load_declared_file(model, model.file)
    return load_version(model, state, require_champion(model, VersionStore(state, model.name).load_roles()))


def require_champion(model: Model, roles: VersionRoles) -> str:
    """The version that is champion."""
    if roles.champion is None:
        raise ModelVersionError(
            f"Model {model.name!r} has no champion. Train one: headrace train APP {model.name} --spine FILE; "
            f"then headrace models promote APP {model.name} VERSION."
        )
    return roles.champion


def load_version(
    model: Model, state: Path, version: str, loaded_versions: Mapping[str, LoadedOnnxVersion] = NO_VERSIONS
) -> LoadedOnnxVersion:
    """A version of a trained model, bound to the current declaration and tried; or the loaded one."""
    if version in loaded_versions:
        return loaded_versions[version]
    content = VersionStore(state, model.name).load_content(version)
    return LoadedOnnxVersion(version, load_scorer(model, content, f"Model {model.name!r} version {version}"), content)


def load_declared_file(
    model: Model, file: Path, loaded_versions: Mapping[str, LoadedOnnxVersion] = NO_VERSIONS
) -> LoadedOnnxVersion:
    """A model's declared file, with its hash as the version; or the loaded one."""
    content = read_model(file)
    version = hashlib.sha256(content).hexdigest()[:12]
    if version in loaded_versions:
        return loaded_versions[version]
    return LoadedOnnxVersion(version, load_scorer(model, content, f"Model {model.name!r}: {file.name}"), content)
