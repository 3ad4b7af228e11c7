"""Model cards: what a version was made of, how good it was, and what its inputs looked like then."""

import json
from collections.abc import Mapping
from dataclasses import MISSING, asdict, dataclass, field, fields
from pathlib import Path
from typing import Any, get_origin

from headrace.errors import HeadraceError

FORMAT = 1
LARGEST_BYTES = 4 << 20


class BrokenCard(HeadraceError):
    """A model card that is not one."""


@dataclass(frozen=True)
class Card:
    """What is known of one version of a model."""

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
    format: int = FORMAT
    retrained: dict[str, Any] = field(default_factory=dict)  # why it was trained anew, and how it compared

    def text(self) -> str:
        return json.dumps(asdict(self), indent=1, allow_nan=False)


def in_words(metrics: Mapping[str, float | None]) -> str:
    """How good a version was, in a line."""
    return ", ".join(f"{name} {value:.4g}" for name, value in metrics.items() if value is not None)


def read_card(file: Path) -> Card:
    """A card from its file, whoever wrote it."""
    try:
        with file.open("rb") as opened:
            content = opened.read(LARGEST_BYTES + 1)
        written: Any = json.loads(content) if len(content) <= LARGEST_BYTES else None
    except (OSError, ValueError, RecursionError) as failure:
        raise BrokenCard(f"{str(file)!r} cannot be read: {failure}. Train the model anew.") from failure
    wrong = _wrong(written)
    if wrong:
        raise BrokenCard(f"{str(file)!r} is not a model card: {wrong}. Train the model anew.")
    return Card(**written)


def _wrong(written: Any) -> str | None:
    if not isinstance(written, dict):
        return "no JSON object of at most 4 MiB"
    expected: dict[str, Any] = {one.name: get_origin(one.type) or one.type for one in fields(Card)}
    later = {one.name for one in fields(Card) if one.default_factory is not MISSING}  # older cards do not have them
    unlike = (written.keys() ^ expected.keys()) - (later - written.keys())
    if unlike:
        return f"it has {sorted(unlike)[0][:80]!r}, or has it not"
    for name, value in written.items():
        if not isinstance(value, (int, float) if expected[name] is float else expected[name]):
            return f"its {name!r} is {str(value)[:80]!r}"
    if written["format"] != FORMAT:
        return f"its format is {written['format']}, and this Headrace reads {FORMAT}"
    return None if all(map(_is_feature, written["features"])) else "its features are not names with types"


def _is_feature(one: Any) -> bool:
    return isinstance(one, dict) and isinstance(one.get("name"), str) and isinstance(one.get("type"), str)
