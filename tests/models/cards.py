"""Model versions without a training: any ONNX that a test wants to promote, with a matching card."""

import hashlib
from pathlib import Path

from headrace.models.versions.model_card import ModelCard
from headrace.models.versions.version_store import VersionStore


def card_for(content: bytes, model: str = "fraud") -> ModelCard:
    return ModelCard(
        model=model,
        version="",
        created_at="2026-01-01T00:00:00+00:00",
        kind="classification",
        estimator="tests.Estimator",
        sha256=hashlib.sha256(content).hexdigest(),
        features=[{"name": "amount", "type": "double"}],
        label="fraud",
        as_of="arrival",
        window={"train": {"from": "a", "to": "b"}},
        rows={"train": 8, "test": 2},
        data_sha256="0",
        thresholds={"block": 0.9},
        metrics={"auc": 0.75, "average_precision": None},
        largest_difference=0.0,
        reference={},
        libraries={"headrace": "0"},
    )


def versions_of(state: Path, *contents: bytes, model: str = "fraud") -> VersionStore:
    """A model's versions 1, 2, …, of which the first is champion."""
    versions = VersionStore(state, model)
    for content in contents:
        versions.add(content, card_for(content, model))
    versions.promote("1")
    return versions
