"""An app whose model scores every event, on the features of two entities."""

import headrace as hr

orders = hr.Stream(
    "orders",
    schema="id string, card string, shop string, amount double, points bigint, at timestamp",
    id="id",
    key="card",
    time="at",
    late=hr.Late("1h"),
    check="amount >= 0",
)


@hr.features(orders, by="card")
class CardOrders:
    orders = hr.count(windows=["10m", "1h"])
    spent = hr.sum("amount", windows=["10m", "1h"])
    points = hr.sum("points", windows="1h")
    spread = hr.stddev("amount", windows="1h")
    share = hr.request("amount", "double") / spent["1h"]


@hr.features(orders, by="shop")
class ShopOrders:
    sold = hr.count(windows="1h")
    largest = hr.max("amount", windows="1h")


fraud = hr.Model(
    "fraud",
    on=orders,
    features=[CardOrders, ShopOrders],
    fields=["amount"],
    file="scored.onnx",
    budget="10s",
    thresholds={"block": 500.0},
)
