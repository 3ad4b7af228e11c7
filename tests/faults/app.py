"""The app under faults: one stream, one view by card and one across partitions."""

import headrace as hr

WINDOWS = ["1m", "1h", "7d"]

taps = hr.Stream(
    "taps",
    schema="id string, card string, shop string, amount bigint, at timestamp",
    id="id",
    key="card",
    time="at",
    late=hr.Late("1m", then="update", until="1d"),
)


@hr.features(taps, by="card")
class ByCard:
    taps = hr.count(windows=WINDOWS)
    spent = hr.sum("amount", windows=WINDOWS)
    largest = hr.max("amount", windows=WINDOWS)
    last_shop = hr.last("shop", windows=WINDOWS)
    shops = hr.distinct("shop", windows=WINDOWS)


@hr.features(taps, by="shop")
class ByShop:
    taps = hr.count(windows=WINDOWS)
    spent = hr.sum("amount", windows=WINDOWS)
