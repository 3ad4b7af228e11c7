"""An app with a saved query."""

import headrace as hr

taps = hr.Stream("taps", schema="id string, card string, amount double, at timestamp", id="id", key="card", time="at")


@hr.features(taps, by="card")
class Spend:
    taps = hr.count(windows="1h")
    spend = hr.sum("amount", windows="1h")


top = hr.Query("top cards", "select card, spend_1h from live.Spend order by spend_1h desc, card limit 3", every="1s")
