"""The version of a model that scores: the one promoted, or the file it was declared with."""

import hashlib
from dataclasses import dataclass
from pathlib import Path

from headrace.declare.model import Model
from headrace.score.network import read_model
from headrace.score.scorer import Scorer, scorer_of
from headrace.score.versions import NoVersion, Versions


@dataclass(frozen=True)
class Loaded:
    """A model that is ready to score: its version, its bytes and its scorer."""

    version: str
    content: bytes
    scorer: Scorer


def load_champion(model: Model, state: Path) -> Loaded:
    """The champion of a model; that of a declared file is the file itself, with its hash for a version."""
    if model.file is not None:
        return _loaded(model, read_model(model.file), f"Model {model.name!r}: {model.file.name}")
    champion = Versions(state, model.name).champion().champion
    if champion is None:
        raise NoVersion(
            f"Model {model.name!r} has no champion. Train one: headrace train APP {model.name} --spine FILE; "
            f"then headrace models promote APP {model.name} VERSION."
        )
    return load_version(model, state, champion)


def load_version(model: Model, state: Path, version: str) -> Loaded:
    """A version of a trained model, bound to the model as it is declared now, and tried."""
    content = Versions(state, model.name).content(version)
    return _loaded(model, content, f"Model {model.name!r} version {version}", version)


def _loaded(model: Model, content: bytes, where: str, version: str | None = None) -> Loaded:
    return Loaded(version or hashlib.sha256(content).hexdigest()[:12], content, scorer_of(model, content, where))
