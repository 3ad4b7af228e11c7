"""An app with one sink; environment variables set its source and target."""

import os

import headrace as hr
from tests.connectors.sinks.gate_output import SCHEMA

TARGETS = {
    "postgres": lambda name: hr.Postgres("env:PG_URL", table=name),
    "redis": lambda name: hr.Redis("env:REDIS_URL", prefix=name),
    "delta": lambda name: hr.Delta(os.environ["DELTA"]),
    "iceberg": lambda name: hr.Iceberg(os.environ["ICEBERG"], table="kills"),
    "clickhouse": lambda name: hr.ClickHouse("env:CLICKHOUSE_URL", table=name),
    "kafka": lambda name: hr.Kafka(f"{name}.copied"),
    "webhook": lambda name: hr.Webhook("env:HOOK_URL"),
}
name = os.environ["SUNK"]
sunk = hr.Stream(name, schema=SCHEMA, id="id", key="card", time="at")
sink = hr.Sink(
    f"rows of {name}",
    of=sunk,
    to=TARGETS[os.environ["TARGET"]](name),
    delivery=os.environ["DELIVERY"],
)
