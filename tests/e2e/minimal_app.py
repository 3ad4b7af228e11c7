"""The smallest app: ten lines."""

import headrace as hr

taps = hr.Stream(
    "taps", schema="id string, card string, amount double, at timestamp", id="id", key="card", time="at", partitions=2
)


@hr.features(taps, by="card")
class Taps:
    taps = hr.count(windows=["1h", "7d"])
    spent = hr.sum("amount", windows=["1h", "7d"])
    cards = hr.distinct("card", windows="1h")
