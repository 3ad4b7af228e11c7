"""A topic in Avro: every row has its registered schema, and is readable without Headrace."""

import json
from contextlib import ExitStack
from datetime import datetime
from io import BytesIO
from typing import Any

import orjson
import pytest
from fastavro import parse_schema, schemaless_reader

import headrace as hr
from headrace.connectors.sinks.sink_part import create_sink_writer
from headrace.connectors.sinks.sink_schemas import avro_row_schema, check_sink_schema, require_compatible_sink_schema
from headrace.connectors.sinks.writer import SinkConfig, TargetUnavailable
from headrace.declare.sinks.sink import Sink
from headrace.declare.sinks.sink_source import source_schema
from headrace.declare.streams.schema import Kind
from headrace.embedded_servers.broker import EmbeddedBroker
from headrace.kafka.producer.producer import Producer
from headrace.kafka.schema_registry.compatibility import IncompatibleSchemaError
from headrace.kafka.schema_registry.registry_client import SchemaRegistryClient
from headrace.kafka.schema_registry.wire_format import HEADER, read_schema_id
from headrace.kafka.topics import TopicSpec
from tests.connectors.sinks.gate_output import Gate, event, new_stream, sinking
from tests.connectors.sinks.target_reader import records_of, timed
from tests.connectors.sinks.test_feature_rows import CARDS, PUBLISHED, brute_force, grown, new_view, publish, to_topic
from tests.connectors.sinks.test_predictions import prediction
from tests.kafka.kafka_tools import create_topic
from tests.waiting import wait_until


def read(registry: SchemaRegistryClient, value: bytes | None) -> Any:
    schema_id = read_schema_id(value)
    assert schema_id is not None
    assert value is not None
    found = registry.get_schema(schema_id)
    assert found is not None
    return schemaless_reader(BytesIO(value[HEADER.size :]), parse_schema(json.loads(found.text)))  # type: ignore[call-arg]


def test_rows_are_written_in_avro_with_their_schema_registered(
    broker: EmbeddedBroker, registry: SchemaRegistryClient
) -> None:
    gate = Gate(broker.address, new_stream(broker.address))
    gate.send(*map(event, range(50)), event(50, amount=None))
    topic = f"{gate.stream.name}.avro"
    create_topic(broker.address, TopicSpec(topic, topic, 2, {}))
    target = hr.Kafka(topic, format="avro", registry=registry.url)
    sink = Sink(f"avro of {gate.stream.name}", of=gate.stream, to=target)
    assert check_sink_schema(sink).errors == ()
    with sinking(sink, SinkConfig(broker.address)) as running:
        wait_until(lambda: len(records_of(broker.address, topic)) >= 51, 40, "51 rows", lambda: f"{running.progress()}")
    found = [read(registry, record.value) for record in records_of(broker.address, topic)]
    assert sorted(found, key=repr) == sorted(map(timed, gate.sent), key=repr)
    assert all(isinstance(row["at"], datetime) for row in found)
    assert [one.number for one in registry.get_versions(f"{topic}-value")] == [1]


def both(
    broker: str, registry: SchemaRegistryClient, of: hr.Stream | hr.Model, rows: int
) -> tuple[list[Any], list[Any]]:
    """The rows delivered to an Avro topic and to a JSON topic, read by a client independent of Headrace."""
    name = f"of-{of.name}"
    targets = {
        f"{name}.avro": hr.Kafka(f"{name}.avro", format="avro", registry=registry.url),
        f"{name}.json": hr.Kafka(f"{name}.json"),
    }
    with ExitStack() as stack:
        for topic, target in targets.items():
            create_topic(broker, TopicSpec(topic, topic, 2, {}))
            stack.enter_context(sinking(Sink(topic, of=of, to=target), SinkConfig(broker)))
        for topic in targets:
            wait_until(lambda: len(records_of(broker, topic)) >= rows, 40, f"{rows} rows in {topic}")  # noqa: B023
    in_avro, in_json = (records_of(broker, topic) for topic in targets)
    moments = {column.name for column in source_schema(of) if column.kind is Kind.TIMESTAMP}
    doubles = {column.name for column in source_schema(of) if column.kind is Kind.DOUBLE}
    told = [plain(orjson.loads(record.value or b""), moments, doubles) for record in in_json]
    return sorted((read(registry, one.value) for one in in_avro), key=repr), sorted(told, key=repr)


def plain(row: dict[str, Any], moments: set[str], doubles: set[str]) -> dict[str, Any]:
    """A row of JSON with its times as moments and its doubles as such: JSON has no word for what is not a number."""
    read_as = dict.fromkeys(moments, datetime.fromisoformat) | dict.fromkeys(doubles, float)
    return {name: read_as.get(name, _same)(value) if value is not None else None for name, value in row.items()}


def _same(value: Any) -> Any:
    return value


def test_a_derived_stream_is_the_same_in_avro_as_in_json(
    broker: EmbeddedBroker, registry: SchemaRegistryClient
) -> None:
    taps = new_stream(broker.address)
    over: Any = {"by": "card", "over": hr.Tumbling("1m"), "total": hr.sum("amount"), "big": hr.last("big")}
    spend = hr.windowed(f"spend-{taps.name}", taps, n=hr.count(), newest=hr.max("at"), **over).out
    create_topic(broker.address, TopicSpec(spend.clean, spend.clean, 2, {}))
    gate = Gate(broker.address, spend)
    at = "2026-01-01T00:00:00.000001Z"
    times = dict.fromkeys((column.name for column in spend.schema if column.kind is Kind.TIMESTAMP), at)
    totals = (0.1, 1e300, -0.0, "NaN", "Infinity", None)
    for number, total in enumerate(totals):
        values = {"card": f"c{number}", "n": 2**62 + number, "total": total, "big": number == 1}
        gate.send(dict.fromkeys(spend.schema.names) | times | values | {spend.id: f"é{number}"})
    in_avro, in_json = both(broker.address, registry, spend, len(totals))
    assert repr(in_avro) == repr(in_json)  # NaN is NaN
    assert [row[spend.id] for row in in_avro].count("é3") == 1
    assert {row["newest"] for row in in_avro} == {datetime.fromisoformat(at)}


def test_predictions_are_the_same_in_avro_as_in_json(broker: EmbeddedBroker, registry: SchemaRegistryClient) -> None:
    taps = new_stream(broker.address)

    @hr.features(taps, by="card")
    class Taps:
        taps = hr.count(windows="10m")

    model = hr.Model(f"avro-{taps.name}", on=taps, features=[Taps], file="fraud.onnx")
    create_topic(broker.address, TopicSpec(model.predictions, model.predictions, 2, {}))
    with Producer(broker.address) as producer:
        for number in range(5):
            producer.send(model.predictions, prediction(f"e{number}", number / 7, "v1"), key=f"e{number}")
    in_avro, in_json = both(broker.address, registry, model, 5)
    assert in_avro == in_json
    assert {row["score"] for row in in_avro} == {number / 7 for number in range(5)}
    assert {row["features"] for row in in_avro} == {'{"payments_10m":3,"mean_7d":null}'}


def test_features_of_a_view_are_written_in_avro_with_their_schema_registered(
    broker: EmbeddedBroker, registry: SchemaRegistryClient
) -> None:
    view = new_view(broker.address)
    sink = to_topic(broker.address, view, format="avro", registry=registry.url)
    publish(broker, sink, grown(view, 300))
    subject = f"{view.name}.published-value"
    found = [read(registry, record.value) for record in records_of(broker.address, f"{view.name}.published")]
    last = {row["card"]: row for row in found}
    assert sorted(last) == CARDS
    for card, row in last.items():
        wanted = brute_force(view, card, row["as_of"].isoformat(), 300)
        assert {name: row[name] for name in PUBLISHED.split()} == {name: wanted[name] for name in PUBLISHED.split()}
    fields = json.loads(registry.get_versions(subject)[-1].schema.text)["fields"]
    assert [one["name"] for one in fields] == ["card", *PUBLISHED.split(), "event_time", "as_of"]


def test_a_schema_the_subject_does_not_take_is_refused_before_anything_runs(
    broker: EmbeddedBroker, registry: SchemaRegistryClient
) -> None:
    stream = new_stream(broker.address)
    topic = f"{stream.name}.taken"
    target = hr.Kafka(topic, format="avro", registry=registry.url)
    sink = Sink("taken", of=stream, to=target)
    other = json.loads(avro_row_schema(sink))
    other["fields"] = [{"name": one["name"], "type": "boolean"} for one in other["fields"]]
    registry.register_schema(f"{topic}-value", "AVRO", json.dumps(other))
    with pytest.raises(IncompatibleSchemaError, match="rejects this version of"):
        require_compatible_sink_schema(sink)
    with pytest.raises(TargetUnavailable, match="answers 409"):
        create_sink_writer(sink, SinkConfig(broker.address)).open()


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
