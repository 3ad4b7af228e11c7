"""The app of all sections: one stream, one view of ten features over three windows."""

import headrace as hr

payments = hr.Stream(
    "payments",
    schema="payment_id string, card string, merchant string, amount double, at timestamp",
    id="payment_id",
    key="card",
    time="at",
    late=hr.Late("1h"),
)


@hr.features(payments, by="card")
class CardSpend:
    payments = hr.count(windows=["10m", "1h", "7d"])
    spend = hr.sum("amount", windows=["10m", "1h", "7d"])
    largest = hr.max("amount", windows=["10m", "1h", "7d"])
    merchants = hr.distinct("merchant", windows="1h")
