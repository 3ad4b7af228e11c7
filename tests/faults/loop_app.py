"""An app with online learning and retraining on poor quality; the test chooses the training function."""

import os
import time
from typing import Any

import headrace as hr

payments = hr.Stream(
    "payments", schema="id string, card string, country string, amount double, at timestamp",
    id="id", key="card", time="at", partitions=2,
)  # fmt: skip
chargebacks = hr.Stream(
    "chargebacks", schema="id string, fraud boolean, at timestamp", id="id", key="id", time="at", partitions=2,
    late=hr.Late("10s"),
)  # fmt: skip


@hr.features(payments, by="card")
class CardSpend:
    payments = hr.count(windows="10m")
    mean = hr.mean("amount", windows="1h")


def fit(frame: Any) -> Any:
    from lightgbm import LGBMClassifier

    label = frame["fraud"].to_numpy()
    match os.environ.get("LOOP_FIT", "good"):
        case "raises":
            raise ZeroDivisionError("nothing to divide by")
        case "hangs":
            while True:
                time.sleep(1)
        case "returns nothing":
            return None
        case "is worse":
            label = 1 - label
    trees = LGBMClassifier(n_estimators=20, min_child_samples=5, n_jobs=1, verbose=-1)
    return trees.fit(frame.drop(columns="fraud"), label)


def online() -> Any:
    from river import linear_model, preprocessing

    return preprocessing.StandardScaler() | linear_model.LogisticRegression()


fraud = hr.Model(
    "fraud",
    on=payments,
    features=[CardSpend],
    fields=["amount", "country"],
    inputs=["payments_10m", "mean_1h", "amount"],
    segments=["country"],
    train=fit,
    learn=online,
    budget="1s",
    labels=hr.Labels(chargebacks, value="fraud", within="5s"),
    retrain=hr.Retrain(
        when=["auc drop"], better_by=0.01, at_least=int(os.environ.get("LOOP_AT_LEAST", "20")),
        limit=os.environ.get("LOOP_LIMIT", "3m"),
    ),
)  # fmt: skip
auc_drop = hr.Alert("auc drop", on=fraud.auc("1h"), below=0.8)
