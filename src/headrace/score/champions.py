"""The version of a model that scores: the one promoted, or the file it was declared with."""

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from headrace.declare.model import Model
from headrace.score.network import read_model
from headrace.score.roles import Champion
from headrace.score.scorer import RowScorer, Scorer, scorer_of
from headrace.score.versions import NoVersion, Versions


@dataclass(frozen=True)
class Loaded:
    """A version that is ready to score."""

    version: str
    scorer: RowScorer


@dataclass(frozen=True)
class LoadedFile(Loaded):
    """A version that is a file of ONNX, with its bytes."""

    scorer: Scorer
    content: bytes


NOTHING: Mapping[str, LoadedFile] = {}


def load_champion(model: Model, state: Path) -> LoadedFile:
    """The champion of a model; that of a declared file is the file itself."""
    if model.file is not None:
        return load_file(model, model.file)
    return load_version(model, state, name_of_champion(model, Versions(state, model.name).champion()))


def name_of_champion(model: Model, roles: Champion) -> str:
    """The version that is champion."""
    if roles.champion is None:
        raise NoVersion(
            f"Model {model.name!r} has no champion. Train one: headrace train APP {model.name} --spine FILE; "
            f"then headrace models promote APP {model.name} VERSION."
        )
    return roles.champion


def load_version(model: Model, state: Path, version: str, known: Mapping[str, LoadedFile] = NOTHING) -> LoadedFile:
    """A version of a trained model, bound to the model as it is declared now, and tried; or the one that is known."""
    if version in known:
        return known[version]
    content = Versions(state, model.name).content(version)
    return LoadedFile(version, scorer_of(model, content, f"Model {model.name!r} version {version}"), content)


def load_file(model: Model, file: Path, known: Mapping[str, LoadedFile] = NOTHING) -> LoadedFile:
    """A model's declared file, with its hash for a version; or the one that is known."""
    content = read_model(file)
    version = hashlib.sha256(content).hexdigest()[:12]
    if version in known:
        return known[version]
    return LoadedFile(version, scorer_of(model, content, f"Model {model.name!r}: {file.name}"), content)
