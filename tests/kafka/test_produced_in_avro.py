"""`hr.produce` to an Avro stream: the declared columns are its first version, and rows use the newest one."""

from datetime import UTC, datetime
from uuid import uuid4

import pytest

import headrace as hr
from headrace.embedded_servers.broker import EmbeddedBroker
from headrace.kafka.consumers.offset_range import read_offset_range
from headrace.kafka.offsets import OffsetClient
from headrace.kafka.producer.produce_rows import InvalidRowError
from headrace.kafka.schema_registry.registry_client import SchemaRegistryClient
from headrace.kafka.schema_registry.wire_format import read_schema_id
from headrace.kafka.topics import ensure_topics
from tests.connectors.sinks.test_avro import read
from tests.kafka.avro import field, logical, schema

AT = datetime(2026, 1, 1, 0, 0, 0, 123456, tzinfo=UTC)


def test_rows_are_written_with_the_newest_version_and_what_does_not_fit_is_not_sent(
    broker: EmbeddedBroker, registry: SchemaRegistryClient
) -> None:
    taps = hr.Stream(
        f"taps-{uuid4().hex[:8]}", schema="id string, card string, amount double, at timestamp", id="id", key="card",
        time="at", format="avro", registry=registry.url,
    )  # fmt: skip
    ensure_topics(broker.address, [taps])
    rows = [{"id": "1", "card": "c", "amount": float("inf"), "at": AT}, {"id": "2", "card": "c", "at": AT.isoformat()}]
    hr.produce(taps, rows, broker=broker.address)
    newer = [field("id", "string"), field("card", "string"), field("amount", ["null", "double"], default=None)]
    registry.set_compatibility(f"{taps.name}-value", "NONE")
    second = registry.register_schema(
        f"{taps.name}-value", "AVRO", schema(*newer, field("at", logical("timestamp-millis")))
    )
    hr.produce(taps, [{"id": "3", "card": "c", "amount": 2.5, "at": AT}], broker=broker.address)
    with pytest.raises(InvalidRowError, match="row 1: wrong-type"):
        hr.produce(taps, [rows[1], {**rows[0], "amount": "much"}], broker=broker.address)
    offsets = OffsetClient(broker.address)
    found = [
        *read_offset_range(
            broker.address, offsets.topic_start_offsets([taps.name]), offsets.topic_end_offsets([taps.name])
        )
    ]
    assert [read(registry, one.value) for one in found] == [
        {"id": "1", "card": "c", "amount": float("inf"), "at": AT},
        {"id": "2", "card": "c", "amount": None, "at": AT},
        {"id": "3", "card": "c", "amount": 2.5, "at": AT.replace(microsecond=123000)},
    ]
    assert read_schema_id(found[2].value) == second
    assert [one.number for one in registry.get_versions(f"{taps.name}-value")] == [1, 2]
