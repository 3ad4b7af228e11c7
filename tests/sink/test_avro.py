"""A topic in Avro: every row with the schema it was registered under, readable by who has never heard of us."""

import json
from datetime import datetime
from io import BytesIO
from typing import Any

import pytest
from fastavro import parse_schema, schemaless_reader

import headrace as hr
from headrace.declare.sink import Sink
from headrace.local.broker import Broker
from headrace.log.schemas.compatible import Incompatible
from headrace.log.schemas.registry import Registry
from headrace.log.schemas.wire import HEADER, schema_id_of
from headrace.log.topics import Topic
from headrace.sink.run import writer_of
from headrace.sink.schemas import require_taken, schema_of_rows, taken
from headrace.sink.writer import Away, SinkPlace
from tests.log.kafka import create_topic
from tests.sink.flowing import Gate, event, new_stream, sinking
from tests.sink.reading import records_of, timed
from tests.waiting import wait_until


def read(registry: Registry, value: bytes | None) -> Any:
    schema_id = schema_id_of(value)
    assert schema_id is not None
    assert value is not None
    found = registry.by_id(schema_id)
    assert found is not None
    return schemaless_reader(BytesIO(value[HEADER.size :]), parse_schema(json.loads(found.text)))  # type: ignore[call-arg]


def test_rows_are_written_in_avro_with_their_schema_registered(broker: Broker, registry: Registry) -> None:
    gate = Gate(broker.address, new_stream(broker.address))
    gate.send(*map(event, range(50)), event(50, amount=None))
    topic = f"{gate.stream.name}.avro"
    create_topic(broker.address, Topic(topic, topic, 2, {}))
    target = hr.Kafka(topic, format="avro", registry=registry.url)
    sink = Sink(f"avro of {gate.stream.name}", of=gate.stream, to=target)
    assert taken(sink).refused == ()
    with sinking(sink, SinkPlace(broker.address)) as running:
        wait_until(lambda: len(records_of(broker.address, topic)) >= 51, 40, "51 rows", lambda: f"{running.progress()}")
    found = [read(registry, record.value) for record in records_of(broker.address, topic)]
    assert sorted(found, key=repr) == sorted(map(timed, gate.sent), key=repr)
    assert all(isinstance(row["at"], datetime) for row in found)
    assert [one.number for one in registry.versions(f"{topic}-value")] == [1]


def test_a_schema_the_subject_does_not_take_is_refused_before_anything_runs(broker: Broker, registry: Registry) -> None:
    stream = new_stream(broker.address)
    topic = f"{stream.name}.taken"
    target = hr.Kafka(topic, format="avro", registry=registry.url)
    sink = Sink("taken", of=stream, to=target)
    other = json.loads(schema_of_rows(sink))
    other["fields"] = [{"name": one["name"], "type": "boolean"} for one in other["fields"]]
    registry.register(f"{topic}-value", "AVRO", json.dumps(other))
    with pytest.raises(Incompatible, match="takes no such version of"):
        require_taken(sink)
    with pytest.raises(Away, match="answers 409"):
        writer_of(sink, SinkPlace(broker.address)).open()


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"format": "avro"}, "go together"),
        ({"registry": "http://x"}, "go together"),
        ({"format": "xml"}, "format='xml'"),
        ({"format": "avro", "registry": "http://me:s3cret@x"}, "has a password"),
    ],
)
def test_a_target_that_cannot_be_is_refused(settings: dict[str, Any], said: str) -> None:
    with pytest.raises(hr.DeclarationError, match=said) as refused:
        hr.Kafka("topic", **settings)
    assert "s3cret" not in str(refused.value)
