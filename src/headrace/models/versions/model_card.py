"""Model cards: the training of a version, its metrics, and the distribution of its inputs."""

import json
from collections.abc import Mapping
from dataclasses import MISSING, asdict, dataclass, field, fields
from pathlib import Path
from typing import Any, get_origin

from headrace.errors import HeadraceError

CARD_FORMAT = 1
MAX_CARD_BYTES = 4 << 20


class InvalidModelCardError(HeadraceError):
    """An invalid model card."""


@dataclass(frozen=True)
class ModelCard:
    """The description of one version of a model."""

    model: str
    version: str
    created_at: str
    kind: str
    estimator: str
    sha256: str
    features: list[dict[str, Any]]
    label: str
    as_of: str
    window: dict[str, Any]
    rows: dict[str, Any]
    data_sha256: str
    thresholds: dict[str, Any]
    metrics: dict[str, Any]
    largest_difference: float
    reference: dict[str, Any]
    libraries: dict[str, Any]
    format: int = CARD_FORMAT
    retrained: dict[str, Any] = field(default_factory=dict)  # why it was retrained, and how it compared

    def to_json(self) -> str:
        return json.dumps(asdict(self), indent=1, allow_nan=False)


def format_metrics(metrics: Mapping[str, float | None]) -> str:
    """The metrics of a version, in a line."""
    return ", ".join(f"{name} {value:.4g}" for name, value in metrics.items() if value is not None)


def read_card(file: Path) -> ModelCard:
    """Read a card, from any writer."""
    try:
        with file.open("rb") as stream:
            content = stream.read(MAX_CARD_BYTES + 1)
        document: Any = json.loads(content) if len(content) <= MAX_CARD_BYTES else None
    except (OSError, ValueError, RecursionError) as failure:
        raise InvalidModelCardError(f"{str(file)!r} cannot be read: {failure}. Train the model again.") from failure
    problem = _find_problem(document)
    if problem:
        raise InvalidModelCardError(f"{str(file)!r} is not a model card: {problem}. Train the model again.")
    return ModelCard(**document)


def _find_problem(document: Any) -> str | None:
    if not isinstance(document, dict):
        return "no JSON object of at most 4 MiB"
    expected_types: dict[str, Any] = {
        card_field.name: get_origin(card_field.type) or card_field.type for card_field in fields(ModelCard)
    }
    optional_names = {
        one.name for one in fields(ModelCard) if one.default_factory is not MISSING
    }  # older cards do not have them
    differing_names = (document.keys() ^ expected_types.keys()) - (optional_names - document.keys())
    if differing_names:
        return f"it has {sorted(differing_names)[0][:80]!r}, or has it not"
    for name, value in document.items():
        if not isinstance(value, (int, float) if expected_types[name] is float else expected_types[name]):
            return f"its {name!r} is {str(value)[:80]!r}"
    if document["format"] != CARD_FORMAT:
        return f"its format is {document['format']}, and this Headrace reads {CARD_FORMAT}"
    return None if all(map(_is_feature, document["features"])) else "its features are not names with types"


def _is_feature(feature: Any) -> bool:
    return isinstance(feature, dict) and isinstance(feature.get("name"), str) and isinstance(feature.get("type"), str)
