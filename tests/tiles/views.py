"""The small views that the tests of this folder share."""

import headrace as hr
from headrace.declare.features.view import View

MINUTE_US = 60_000_000
SCHEMA = "id string, card string, amount double, units bigint, shop string, seen timestamp, at timestamp"

payments = hr.Stream("payments", schema=SCHEMA, id="id", key="card", time="at", check="amount >= 0")


@hr.features(payments, by="card")
class Numbers:
    number = hr.count(windows="1h")
    spend = hr.sum("amount", windows="1h")
    units = hr.sum("units", windows="1h")
    spread = hr.stddev("amount", windows="1h")
    least = hr.min("amount", windows="1h")
    most = hr.max("amount", windows="1h")


@hr.features(payments, by="card")
class Objects:
    first = hr.first("amount", windows="1h")
    last = hr.last("seen", windows="1h")
    shops = hr.distinct("shop", windows="1h")
    shop = hr.min("shop", windows="1h")


VIEWS: list[View] = [Numbers, Objects]
