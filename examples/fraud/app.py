"""Card fraud: what a card, a merchant, and a card in a country have been doing."""

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
