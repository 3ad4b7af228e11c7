"""An app whose model is trained on its labels."""

from typing import Any

from lightgbm import LGBMClassifier

import headrace as hr

payments = hr.Stream(
    "payments", schema="id string, card string, amount double, at timestamp", id="id", key="card", time="at"
)
chargebacks = hr.Stream(
    "chargebacks", schema="id string, fraud boolean, at timestamp", id="id", key="id", time="at", late=hr.Late("1m")
)


@hr.features(payments, by="card")
class CardSpend:
    payments = hr.count(windows=["10m", "1h"])
    mean = hr.mean("amount", windows="1h")


def fit(frame: Any) -> Any:
    return LGBMClassifier(n_estimators=20, verbose=-1, n_jobs=1).fit(frame.drop(columns="fraud"), frame["fraud"])


fraud = hr.Model(
    "fraud",
    on=payments,
    features=[CardSpend],
    fields=["amount"],
    train=fit,
    labels=hr.Labels(chargebacks, value="fraud", within="10m", default=False),
    retrain=hr.Retrain(every="7d", when=["auc drop"], better_by=0.01),
)
auc_drop = hr.Alert("auc drop", on=fraud.auc("1h"), below=0.9)
