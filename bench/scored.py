"""The app of section predictions: the bench's app and a model of a hundred trees, written to the folder of the run."""

import random
from pathlib import Path

import numpy as np
import pandas as pd
from lightgbm import LGBMClassifier

import headrace as hr
from bench.app import CardSpend, payments
from headrace.models.training.onnx_export import export_to_onnx

TREES, ROWS = 100, 4_000
TEXT = """
import headrace as hr
from bench.app import CardSpend, payments

fraud = hr.Model("fraud", on=payments, features=[CardSpend], fields=["amount"], file="fraud.onnx", budget="50ms")
"""


def write_app(folder: Path) -> Path:
    """Write the app's file, and its model next to it."""
    declared = hr.Model("fraud", on=payments, features=[CardSpend], fields=["amount"], file="fraud.onnx")
    (folder / "fraud.onnx").write_bytes(export_to_onnx(_fitted(declared), tuple(declared.vector)))
    app = folder / "scored.py"
    app.write_text(TEXT)
    return app


def _fitted(model: hr.Model) -> LGBMClassifier:
    """Trees of some depth; their scores do not matter here."""
    chance = np.random.default_rng(random.Random(1).randrange(2**32))
    frame = pd.DataFrame(chance.exponential(50, (ROWS, len(model.vector.names))).astype(np.float32))
    frame.columns = pd.Index(model.vector.names)
    fraud = frame.sum(axis=1) + chance.normal(0, 50, ROWS) > frame.sum(axis=1).median()
    return LGBMClassifier(n_estimators=TREES, verbose=-1, n_jobs=1).fit(frame, fraud)
