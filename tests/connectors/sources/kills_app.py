"""An app with a stream from NATS; environment variables set its name."""

import os

import headrace as hr

payments = hr.Stream(
    os.environ["BRIDGED"],
    schema="id string, card string, at timestamp",
    id="id",
    key="card",
    time="at",
    from_=hr.Nats("env:NATS_URL", stream=os.environ["BRIDGED"]),
)
