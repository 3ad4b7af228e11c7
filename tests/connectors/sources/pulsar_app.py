"""A stream that comes from a partitioned topic of Pulsar, named by the environment."""

import os

import headrace as hr

payments = hr.Stream(
    os.environ["BRIDGED"],
    schema="id string, card string, at timestamp",
    id="id",
    key="card",
    time="at",
    from_=hr.Pulsar("env:PULSAR_URL", topic=f"persistent://public/default/{os.environ['BRIDGED']}", partitions=3),
)
