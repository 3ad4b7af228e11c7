"""An app with parts that serving does not need: lake, evaluation, operators, sink, consistency check, alerts."""

import headrace as hr

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
    taps = hr.count(windows=["1h", "7d"])


visits = hr.windowed("visits", taps, by="card", over=hr.Tumbling("5s"), n=hr.count()).out
copies = hr.Sink("copies", of=taps, to=hr.Kafka("taps.copies"))
verdicts = hr.Stream("verdicts", schema="id string, bad boolean, at timestamp", id="id", key="id", time="at")
guess = hr.Model(
    "guess", on=taps, features=[ByCard], train=lambda frame: frame, labels=hr.Labels(verdicts, value="bad", within="1h")
)
