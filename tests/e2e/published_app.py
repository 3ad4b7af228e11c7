"""A stream and a view of it, both with a sink to ClickHouse."""

import headrace as hr

taps = hr.Stream(
    "taps", schema="id string, card string, amount double, at timestamp", id="id", key="card", time="at", partitions=2
)


@hr.features(taps, by="card")
class Taps:
    taps = hr.count(windows=["1m", "1h"])
    spend = hr.sum("amount", windows="1h")
    mean = spend["1h"] / taps["1h"]


events = hr.Sink("taps", of=taps, to=hr.ClickHouse("env:CLICKHOUSE_URL", table="taps"), delivery="exactly_once")
features = hr.Sink("features", of=Taps, to=hr.ClickHouse("env:CLICKHOUSE_URL", table="features"), key="card")
