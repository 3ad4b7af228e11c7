"""An app with a model to train and one that was exported elsewhere."""

from typing import Any

from lightgbm import LGBMClassifier

import headrace as hr

payments = hr.Stream(
    "payments",
    schema="id string, card string, country string, amount double, at timestamp",
    id="id",
    key="card",
    time="at",
)


@hr.features(payments, by="card")
class CardSpend:
    payments = hr.count(windows=["10m", "1h"])
    mean = hr.mean("amount", windows="1h")
    country = hr.last("country", windows="1h")
    ratio = hr.request("amount", "double") / mean["1h"]


def fit(frame: Any) -> Any:
    inputs = frame.drop(columns=["label", "country_1h"])
    return LGBMClassifier(n_estimators=20, verbose=-1, n_jobs=1).fit(inputs, frame["label"])


fraud = hr.Model(
    "fraud", on=payments, features=[CardSpend], fields=["amount"], train=fit, thresholds={"review": 0.3, "block": 0.8}
)
ready = hr.Model("ready", on=payments, features=[CardSpend], fields=["amount"], file="ready.onnx")
