"""An app with an alert on its dead letters."""

import headrace as hr

taps = hr.Stream(
    "taps", schema="id string, card string, amount double, at timestamp", id="id", key="card", time="at",
    check="amount >= 0", partitions=2,
)  # fmt: skip


@hr.features(taps, by="card")
class Taps:
    taps = hr.count(windows="1h")


bad_taps = hr.Alert(
    "bad taps",
    on=hr.share(
        hr.metric("headrace_events_total", stream="taps", fate="dead"),
        of=hr.metric("headrace_events_total", stream="taps", fate="in"),
        over="10s",
        at_least=10,
    ),
    above=0.2,
    clear=0.1,
    for_="1s",
    severity="page",
    why="Somebody sends taps that cost less than nothing.",
    run="headrace plan tests/e2e/alerted_app.py",
)
