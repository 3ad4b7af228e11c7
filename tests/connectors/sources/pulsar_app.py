"""An app with a stream from a partitioned Pulsar topic; environment variables set its name."""

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
