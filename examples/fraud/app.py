"""Card fraud: features of cards, of cards per country, of sprees and of merchants, and a model that scores payments."""

from typing import Any

import headrace as hr

payments = hr.Stream(
    "payments",
    schema="payment_id string, card string, merchant string, country string, amount double, at timestamp",
    id="payment_id",
    key="card",
    time="at",
    late=hr.Late("2m", then="side_output"),
    check="amount >= 0",
)
chargebacks = hr.Stream(
    "chargebacks",
    schema="payment_id string, fraud boolean, at timestamp",
    id="payment_id",
    key="payment_id",
    time="at",
)
tested = (
    hr.pattern(
        "a card is tested with small amounts, then charged",
        by="card",
        within="10m",
        name="tested",
        late=hr.Late("5s", then="drop"),
        idle="5s",
    )
    .step("small", where="amount < 1", times=3)
    .then("large", where="amount > 100 * first(small.amount)", keep=["amount", "merchant"])
    .on(payments)
    .out
)
sprees = hr.windowed(
    "sprees",
    payments,
    by="card",
    over=hr.Session("20s"),
    late=hr.Late("5s", then="drop"),
    payments=hr.count(),
    spend=hr.sum("amount"),
    merchants=hr.distinct("merchant"),
).out


@hr.features(payments, by="card", freshness="1s")
class CardSpend:
    payments = hr.count(windows=["10m", "1h", "7d"])
    declined = hr.count(where="amount > 1000", windows="1h")
    spend = hr.sum("amount", windows=["10m", "1h", "7d"])
    mean = hr.mean("amount", windows="7d")
    spread = hr.stddev("amount", windows="7d")
    largest = hr.max("amount", windows="7d")
    merchants = hr.distinct("merchant", windows="1h")
    median = hr.quantile("amount", 0.5, windows="7d")
    country = hr.last("country", windows="7d")
    burst = payments["10m"] / payments["1h"]
    ratio = hr.request("amount", "double") / mean["7d"]


@hr.features(payments, by="merchant", freshness="1s")
class MerchantFlow:
    payments = hr.count(windows=["10m", "1h"])
    turnover = hr.sum("amount", windows=["1h", "7d"])
    cards = hr.distinct("card", windows="1h")


@hr.features(payments, by=["card", "country"])
class CardAbroad:
    payments = hr.count(windows=["1h", "7d"])
    spend = hr.sum("amount", windows="1h")
    first_seen = hr.first("at", windows="7d")


@hr.features(sprees, by="card")
class CardSprees:
    sprees = hr.count(where="payments > 1", windows="1h")
    longest = hr.max("payments", windows="1h")
    dearest = hr.max("spend", windows="1h")


def fit(frame: Any) -> Any:
    """Gradient-boosted trees on the features of each payment."""
    from lightgbm import LGBMClassifier

    trees = LGBMClassifier(n_estimators=100, num_leaves=15, min_child_samples=50, verbose=-1)
    return trees.fit(frame.drop(columns="fraud"), frame["fraud"])


fraud = hr.Model(
    "fraud",
    on=payments,
    features=[CardSpend],
    fields=["amount"],
    inputs=[
        "amount", "ratio", "burst", "payments_10m", "spend_10m", "declined_1h", "merchants_1h", "mean_7d", "spread_7d",
        "largest_7d",
    ],
    train=fit,
    budget="50ms",
    thresholds={"review": 0.2, "block": 0.8},
    labels=hr.Labels(chargebacks, value="fraud", within="30m", default=False),
)  # fmt: skip
