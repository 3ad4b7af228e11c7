"""Every operator over two streams, with windows of seconds; most have only their `out` stream, as each costs a gate."""

import headrace as hr

SCHEMA = "id string, user string, kind string, amount double, at timestamp"
LATE = hr.Late("10s", then="side_output")

taps = hr.Stream("taps", schema=SCHEMA, id="id", key="user", time="at", late=hr.Late("60s"))
rates = hr.Stream("rates", schema=SCHEMA, id="id", key="user", time="at", late=hr.Late("60s"))

tumbling = hr.windowed(
    "tumbling", taps, by="user", over=hr.Tumbling("5s"), late=LATE, n=hr.count(), spend=hr.sum("amount")
)
sliding = hr.windowed(
    "sliding", taps, by="user", over=hr.Sliding("10s", every="2s"), late=hr.Late("10s", then="drop"), n=hr.count()
).out
visits = hr.windowed(
    "visits",
    taps,
    by="user",
    over=hr.Session("4s"),
    late=hr.Late("5s", then="update", until="30s"),
    n=hr.count(),
    most=hr.max("amount"),
).out
totals = hr.windowed("totals", taps, by="user", over=hr.Global(), emit="update", late=LATE, n=hr.count()).out
joined = hr.join("joined", taps, rates, on="user", within=("3s", "3s"), kind="full", late=LATE, prefix="rate_").out
valid = hr.join_asof("valid", taps, rates, on="user", tolerance="20s", wait="2s", late=LATE, prefix="rate_").out
runs = (
    hr.pattern("two small ones, then a large one", by="user", within="20s", name="runs", late=LATE)
    .step("small", where="amount < 3", times=2)
    .then("large", where="amount > 8")
    .on(taps)
    .out
)


@hr.derive(taps)
def doubled(taps):  # type: ignore[no-untyped-def]
    return taps.where("kind <> 'skip'").withColumn("amount", taps.amount * 2)
