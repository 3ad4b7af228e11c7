"""A running gate meets unknown schemas: it fetches them from a real registry, and misjudges no record."""

import json
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from uuid import uuid4

from pyspark.sql import SparkSession

import headrace as hr
from headrace.declare.streams.stream import Stream
from headrace.embedded_servers.broker import EmbeddedBroker
from headrace.kafka.producer.producer import Producer
from headrace.kafka.schema_registry.record_encoder import AvroEncoder, create_avro_encoder, register_encoder
from headrace.kafka.schema_registry.registry_client import SchemaRegistryClient
from headrace.kafka.schema_registry.wire_format import frame_payload
from tests.kafka.avro import field, logical, optional, schema
from tests.spark.gate_runner import gating, wait_for

BASE = (field("id", "string"), field("card", "string"), field("at", logical("timestamp-micros")))
V1 = schema(*BASE, field("amount", "float"))
V2 = schema(*BASE, field("amount", "double"), optional("channel", "string"))
V3 = schema(*BASE, field("amount", "double"), optional("note", "string"))
WRONG = schema(*BASE, field("amount", "string"))
COLUMNS = "id string, card string, amount double, channel string, at timestamp"


def stream(registry: str) -> Stream:
    return hr.Stream(
        f"taps-{uuid4().hex[:8]}", schema=COLUMNS, id="id", key="card", time="at", format="avro", registry=registry
    )


def send(broker: EmbeddedBroker, declared: Stream, encoder: AvroEncoder, *ids: int, **values: Any) -> None:
    with Producer(broker.address) as producer:
        for number in ids:
            event = {"id": str(number), "card": f"c{number % 7}", "amount": number * 0.5, "at": datetime.now(UTC)}
            producer.send(declared.name, encoder.encode({**event, **values}), key=f"c{number % 7}")


def test_versions_that_come_under_way_are_read_and_what_nobody_knows_is_dead(
    spark: SparkSession, broker: EmbeddedBroker, registry: SchemaRegistryClient, tmp_path: Path
) -> None:
    declared = stream(registry.url)
    subject = f"{declared.name}-value"
    first = register_encoder(registry, subject, V1)
    with gating(spark, broker.address, declared, tmp_path) as pilot:
        send(broker, declared, first, *range(20))
        wait_for(pilot, broker.address, declared, clean=20)
        # The writer is first: its records arrive before the gate knows their schema.
        send(broker, declared, register_encoder(registry, subject, V2), *range(20, 40), channel="web")
        send(broker, declared, first, *range(40, 50))
        wait_for(pilot, broker.address, declared, clean=50)
        registry.set_compatibility(subject, "NONE")
        send(broker, declared, register_encoder(registry, subject, WRONG), 90, 91, amount="much")
        with Producer(broker.address) as producer:
            for number in range(3):
                producer.send(declared.name, frame_payload(900_000 + number, b"?"), key="c0")
        send(broker, declared, register_encoder(registry, subject, V3), *range(50, 60))
        found = wait_for(pilot, broker.address, declared, clean=60, dead=5)
    events = [json.loads(record.value or b"") for record in found["clean"]]
    assert sorted(int(event["id"]) for event in events) == list(range(60))
    assert all(event["amount"] == int(event["id"]) * 0.5 for event in events)
    assert {event["id"] for event in events if event.get("channel") == "web"} == {str(one) for one in range(20, 40)}
    reasons = sorted((record.header("headrace.reason") or b"").decode().partition(":")[0] for record in found["dead"])
    assert reasons == ["incompatible-schema"] * 2 + ["unknown-schema"] * 3

    _goes_on_without_the_registry(spark, broker, declared, first, tmp_path)


def _goes_on_without_the_registry(
    spark: SparkSession, broker: EmbeddedBroker, declared: Stream, first: AvroEncoder, state: Path
) -> None:
    """What was learned is kept beside the checkpoint."""
    alone = hr.Stream(
        declared.name, schema=COLUMNS, id="id", key="card", time="at", format="avro", registry="http://127.0.0.1:1"
    )
    send(broker, alone, create_avro_encoder(first.schema_id, V1), *range(100, 110))
    with gating(spark, broker.address, alone, state) as pilot:
        found = wait_for(pilot, broker.address, alone, clean=70, dead=5)
    assert len(found["dead"]) == 5
