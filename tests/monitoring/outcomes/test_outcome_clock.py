"""The clock advances once gate and join have read all earlier records, and not before."""

import json
import time
from pathlib import Path

from headrace.embedded_servers.broker import EmbeddedBroker
from headrace.kafka.offsets import OffsetClient
from headrace.kafka.producer.producer import Producer
from headrace.kafka.record import Partition
from headrace.monitoring.outcomes.outcome_clock import create_clock
from headrace.monitoring.outcomes.outcomes import LabelEvent
from headrace.spark.stateful.query_clock import now_us
from tests.monitoring.prediction_records import prepared, send


def commit(gate: Path, topic: str, ends: dict[int, int]) -> None:
    for log in ("offsets", "commits"):
        (gate / log).mkdir(parents=True, exist_ok=True)
        (gate / log / "0").write_text("v1\n{}\n" + json.dumps({topic: ends}))


def test_a_time_counts_when_gate_and_join_are_past_what_had_arrived(broker: EmbeddedBroker, tmp_path: Path) -> None:
    model = prepared(broker.address)
    assert model.labels is not None
    labels, gate = model.labels.stream, tmp_path / "gate"
    clock = create_clock(model, labels, OffsetClient(broker.address), gate)
    with Producer(broker.address) as producer:
        producer.send(labels.name, {"id": "a"}, key="a", partition=0)
        producer.send(model.predictions, b"{}", key="a", partition=1)
    asked_us = now_us()
    assert clock.advance({}) is None, "the gate has not come to it"
    commit(gate, labels.name, {0: 0, 1: 0})
    assert clock.advance({}) is None
    commit(gate, labels.name, {0: 1, 1: 0})
    assert clock.advance({}) is None, "the join has not read the prediction"
    predicted = Partition(model.predictions, 1)
    assert clock.advance({predicted: 0}) is None
    with Producer(broker.address) as producer:
        producer.send(labels.name, {"id": "b"}, key="b", partition=0)
    unread_us = time.time_ns() // 1000
    found = clock.advance({predicted: 1})
    assert found is not None
    assert asked_us <= found < unread_us, "what came meanwhile is not in it"


def test_a_clean_label_of_a_later_offset_shows_that_the_gate_is_past(broker: EmbeddedBroker, tmp_path: Path) -> None:
    model = prepared(broker.address)
    assert model.labels is not None
    labels = model.labels.stream
    clock = create_clock(model, labels, OffsetClient(broker.address), tmp_path / "no checkpoint yet")
    with Producer(broker.address) as producer:
        for number in range(3):
            producer.send(labels.name, {"id": "a"}, key="a", partition=number % 2)
    assert clock.advance({}) is None
    send(broker.address, model, [("a", LabelEvent(0, 0, 0, 0, 1.0)), ("a", LabelEvent(0, 0, 1, 0, 1.0))])
    assert clock.advance({}) is None, "of one partition the last may still be to come"
    send(broker.address, model, [("a", LabelEvent(0, 0, 0, 1, 1.0))])
    both = {Partition(labels.clean, 0): 2, Partition(labels.clean, 1): 1}
    assert clock.advance({}) is None, "the join has not read them"
    assert clock.advance(both) is not None
