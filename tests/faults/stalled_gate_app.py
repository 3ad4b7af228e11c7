"""An app for a stalled gate: one stream, one view, and an alert that notifies within seconds."""

import headrace as hr

taps = hr.Stream("taps", schema="id string, card string, at timestamp", id="id", key="card", time="at")


@hr.features(taps, by="card")
class ByCard:
    taps = hr.count(windows="1h")


waits = hr.Alert("taps wait", on=hr.metric("headrace_lag_seconds", stream="taps"), above=10, clear=2)
