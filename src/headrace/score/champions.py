"""The version of a model that scores: the one promoted, or the file it was declared with."""

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from headrace.declare.model import Model
from headrace.score.network import read_model
from headrace.score.roles import Champion
from headrace.score.scorer import Scorer, scorer_of
from headrace.score.versions import NoVersion, Versions


@dataclass(frozen=True)
class Loaded:
    """A model that is ready to score: its version, its bytes and its scorer."""

    version: str
    content: bytes
    scorer: Scorer


NOTHING: Mapping[str, Loaded] = {}


def load_champion(model: Model, state: Path) -> Loaded:
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


def load_version(model: Model, state: Path, version: str, known: Mapping[str, Loaded] = NOTHING) -> Loaded:
    """A version of a trained model, bound to the model as it is declared now, and tried; or the one that is known."""
    if version in known:
        return known[version]
    content = Versions(state, model.name).content(version)
    return Loaded(version, content, scorer_of(model, content, f"Model {model.name!r} version {version}"))


def load_file(model: Model, file: Path, known: Mapping[str, Loaded] = NOTHING) -> Loaded:
    """A model's declared file, with its hash for a version; or the one that is known."""
    content = read_model(file)
    version = hashlib.sha256(content).hexdigest()[:12]
    if version in known:
        return known[version]
    return Loaded(version, content, scorer_of(model, content, f"Model {model.name!r}: {file.name}"))
