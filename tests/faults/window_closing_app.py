"""Windows over a stream whose late records are dropped."""

import headrace as hr

clicks = hr.Stream(
    "clicks",
    schema="id string, user string, at timestamp",
    id="id",
    key="user",
    time="at",
    partitions=2,
    late=hr.Late("2s", then="drop"),
)
visits, _, _ = hr.windowed("visits", clicks, by="user", over=hr.Tumbling("1s"), n=hr.count())
