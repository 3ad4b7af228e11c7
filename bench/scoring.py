"""The benchmark's model: 100 trees of LightGBM over the features of a card and the amount of a payment."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from lightgbm import LGBMClassifier

import headrace as hr
from bench.app import CardSpend, payments
from headrace.models.training.onnx_export import export_to_onnx
from headrace.online_store.memory.memory_store_reader import OnlineStoreReader
from headrace.server.http.routing import Route, post_route
from headrace.server.inference.model_resolver import ModelServingContext
from headrace.server.inference.predict_route import PredictHandler
from headrace.server.inference.prediction_log import PredictionLog
from headrace.server.inference.predictor import Predictor

PATH = "/predict/fraud"
EVENT = '{"payment_id": "p1", "card": "CARD", "merchant": "m1", "amount": 90.5}'
TREES, ROWS = 100, 5_000


def predicting(online: OnlineStoreReader, folder: Path) -> Route:
    """The route that scores an event, without a prediction log."""
    model = fraud(folder)
    log = PredictionLog()
    return post_route(
        PATH,
        PredictHandler(Predictor(model, online, ModelServingContext(folder, log).create_resolver(model), log)),
        runs_inline=bool(online.tables),
    )


def fraud(folder: Path) -> hr.Model:
    """A model whose file is written to a folder."""
    file = folder / "fraud.onnx"
    model = hr.Model("fraud", on=payments, features=[CardSpend], fields=["amount"], file=str(file))
    file.write_bytes(export_to_onnx(fitted(model.vector.names), model.vector.columns))
    return model


def fitted(names: Sequence[str]) -> LGBMClassifier:
    """Trees fitted on reproducible numbers."""
    chance = np.random.default_rng(0)
    frame = pd.DataFrame({name: chance.exponential(50, ROWS).astype(np.float32) for name in names})
    is_fraud = frame.sum(axis=1) + chance.normal(0, 100, ROWS) > 500
    return LGBMClassifier(n_estimators=TREES, verbose=-1, n_jobs=1).fit(frame, is_fraud)


def score_of(features: Mapping[str, Any]) -> float:
    """LightGBM's own score of a vector."""
    row = pd.DataFrame({name: [np.float32(np.nan if value is None else value)] for name, value in features.items()})
    return float(fitted(row.columns).predict_proba(row)[0, 1])
