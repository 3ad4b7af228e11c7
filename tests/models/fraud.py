"""The stream, views and models that the tests of this folder share."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa

import headrace as hr

payments = hr.Stream(
    "payments",
    schema="id string, card string, country string, amount double, units bigint, online boolean, at timestamp",
    id="id",
    key="card",
    time="at",
)
chargebacks = hr.Stream("chargebacks", schema="id string, fraud boolean, at timestamp", id="id", key="id", time="at")
START_US = 1_767_225_600_000_000
NUMBERS = ["payments_1h", "mean_1h", "largest_1h", "share", "amount", "units", "online"]


@hr.features(payments, by="card")
class CardSpend:
    payments = hr.count(windows="1h")
    mean = hr.mean("amount", windows="1h")
    largest = hr.max("amount", windows="1h")
    country = hr.last("country", windows="1h")
    share = hr.request("amount", "double") / mean["1h"]


def model(train: Callable[[Any], Any] | None = None, **settings: Any) -> hr.Model:
    given: dict[str, Any] = {
        "on": payments,
        "features": [CardSpend],
        "fields": ["amount", "units", "online"],
        "labels": hr.Labels(chargebacks, value="fraud", within="10m", default=False),
    }
    given |= {"train": train or (lambda frame: frame)} if "file" not in settings else {}
    return hr.Model(settings.pop("name", "fraud"), **(given | settings))


def training_table(rows: int = 2_000, seed: int = 0, nulls: float = 0.1) -> pa.Table:
    """A training set as Spark would hand it over: nulls, text, booleans, decimals and all."""
    chance = np.random.default_rng(seed)
    mean, amount = chance.normal(50, 20, rows), chance.exponential(40, rows)
    fraud = (amount > 60) ^ (chance.random(rows) < 0.05) | (mean < 20)

    def holed(values: Any) -> pa.Array:
        return pa.array(values, mask=chance.random(rows) < nulls)

    return pa.table(
        {
            "card": [f"c{number % 97}" for number in range(rows)],
            "at": pa.array(START_US + np.sort(chance.integers(0, 86_400_000_000, rows)), pa.timestamp("us", "UTC")),
            "payments_1h": chance.integers(0, 50, rows),
            "mean_1h": holed(mean),
            "largest_1h": holed(mean * 2),
            "country_1h": holed(chance.choice(["FR", "DE", "IT"], rows).astype(object)),
            "share": holed(amount / mean),
            "amount": amount,
            "units": pa.array(chance.integers(-5, 5, rows)),
            "online": holed(chance.random(rows) < 0.5),
            "fraud": pa.array(fraud),
        }
    )


def frame(rows: int = 2_000, seed: int = 0, nulls: float = 0.1) -> pd.DataFrame:
    """The same as an estimator sees it."""
    from headrace.models.training.examples import build_examples

    return build_examples(model(), training_table(rows, seed, nulls), "at").frame
