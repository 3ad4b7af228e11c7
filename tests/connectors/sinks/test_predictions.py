"""A model's predictions as rows: the first one of each event, version and role."""

from pathlib import Path

from deltalake import DeltaTable

import headrace as hr
from headrace.connectors.sinks.writer import SinkConfig
from headrace.declare.sinks.sink import Sink
from headrace.embedded_servers.broker import EmbeddedBroker
from headrace.kafka.producer.producer import Producer
from headrace.kafka.topics import TopicSpec
from headrace.models.inference.prediction import Prediction, encode_prediction
from tests.connectors.sinks.gate_output import new_stream, sinking
from tests.connectors.sinks.test_target_failures import wait_for
from tests.kafka.kafka_tools import create_topic


def prediction(event_id: str, score: float, version: str) -> bytes:
    return encode_prediction(
        Prediction(
            event_id,
            score,
            decision="block",
            model="fraud",
            version=version,
            role="champion",
            source="stream",
            features={"payments_10m": 3, "mean_7d": None},
            known={},
            degraded=("stale",),
            event_time_us=1_000_000,
            arrival_us=2_000_000,
            read_at_us=2_000_000,
            decided_at_us=2_500_000,
        )
    )


def test_predictions_are_rows_each_once(broker: EmbeddedBroker, tmp_path: Path) -> None:
    stream = new_stream(broker.address)

    @hr.features(stream, by="card")
    class Spend:
        payments = hr.count(windows="10m")

    model = hr.Model(f"fraud-{stream.name}", on=stream, features=[Spend], file="fraud.onnx")
    create_topic(broker.address, TopicSpec(model.predictions, model.predictions, 2, {}))
    with Producer(broker.address) as producer:
        for event_id, score, version in [("e1", 0.5, "v1"), ("e1", 0.9, "v1"), ("e1", 0.7, "v2"), ("e2", 0.1, "v1")]:
            producer.send(model.predictions, prediction(event_id, score, version), key=event_id)
        producer.send(model.predictions, b"{}", key="e3")
    folder = tmp_path / "predictions"
    key = ["event_id", "version", "role"]
    sink = Sink("scores", of=model, to=hr.Delta(str(folder)), key=key, delivery="exactly_once")
    with sinking(sink, SinkConfig(broker.address)) as running:
        wait_for(running, "parked", 1)
        wait_for(running, "written", 4)
    rows = DeltaTable(folder).to_pyarrow_table().to_pylist()
    scores = {(row["event_id"], row["version"]): row["score"] for row in rows}
    assert scores == {("e1", "v1"): 0.5, ("e1", "v2"): 0.7, ("e2", "v1"): 0.1}
    assert len(rows) == 3
    assert {row["features"] for row in rows} == {'{"payments_10m":3,"mean_7d":null}'}
    assert {row["arrival"].isoformat() for row in rows} == {"1970-01-01T00:00:02+00:00"}
    assert {row["degraded"] for row in rows} == {"stale"}
