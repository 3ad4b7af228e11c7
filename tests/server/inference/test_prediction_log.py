"""Every prediction over HTTP is in the model's topic, or counted as lost and reported."""

import logging
from collections import Counter
from dataclasses import replace
from pathlib import Path

import pytest

import headrace as hr
from headrace.embedded_servers.broker import EmbeddedBroker
from headrace.embedded_servers.ports import HOST, free_port
from headrace.kafka.consumers.tailing_consumer import TailingConsumer
from headrace.kafka.producer.producer import Producer
from headrace.kafka.record import ConsumerRecord
from headrace.kafka.topics import TopicSpec
from headrace.models.inference.prediction import Prediction, decode_prediction
from headrace.models.versions.live_versions import VersionWatcher
from headrace.server.inference import prediction_log
from headrace.server.inference.model_resolver import ModelServingContext
from headrace.server.inference.prediction_log import PredictionLog
from tests.kafka.kafka_tools import create_topic
from tests.models.cards import versions_of
from tests.models.networks import DOUBLE, summing, with_metadata
from tests.server.prediction_app import INPUTS, VIEWS, event, fraud, payments, predicting
from tests.waiting import patiently

PATH = "/predict/fraud"


@pytest.fixture(scope="module")
def topic(broker: EmbeddedBroker) -> str:
    create_topic(broker.address, TopicSpec("fraud.predictions", "payments", 1, {}))
    return "fraud.predictions"


def logged(broker: EmbeddedBroker, topic: str) -> list[Prediction]:
    found: list[ConsumerRecord] = []
    with TailingConsumer(broker.address, [topic], found.extend) as follower:
        assert follower.wait_until_caught_up(patiently(30))
    return [decode_prediction(record.value or b"") for record in found]


def test_each_prediction_is_in_the_log_once_the_server_has_stopped(
    broker: EmbeddedBroker, topic: str, tmp_path: Path
) -> None:
    before = len(logged(broker, topic))
    with (
        PredictionLog(Producer(broker.address)) as log,
        predicting(fraud(tmp_path), scoring=ModelServingContext(tmp_path, log)) as ask,
    ):
        answers = [ask("POST", PATH, event(number)).json for number in range(40)]
        answers += ask("POST", PATH, [event(number) for number in range(40, 60)]).json
        unnamed = ask("POST", PATH, {"card": "c1", "merchant": "m1", "amount": 5}).json
        vector = [
            {"name": name, "datatype": "FP64", "shape": [1], "data": [1.5]} for name in ("payments_1h", "cards_1h")
        ]
        whole = {"inputs": [*vector, {"name": "amount", "datatype": "FP64", "shape": [1], "data": [2.5]}]}
        assert ask("POST", "/v2/models/fraud/infer", whole).json["outputs"][0]["data"] == [5.5]
        assert log.lost_counts() == {}
    found = logged(broker, topic)[before:]
    by_id = {one.event_id: one for one in found}
    assert len(found) == len(by_id) == 62
    for number, answer in enumerate(answers):
        one = by_id[f"p{number}"]
        assert (one.score, one.decision, one.version) == (answer["score"], answer["decision"], answer["version"])
        assert (one.features, one.role, one.source, one.degraded) == (answer["features"], "champion", "http", ())
        assert (one.event_time_us, one.arrival_us) == (event(number)["at"] * 1000, None)
        assert one.known.keys() == {"CardSpend", "MerchantCards"}
        assert one.read_at_us <= one.decided_at_us
    event_alone, vector_alone = [one for name, one in by_id.items() if name.startswith("http-")]
    assert (event_alone.score, event_alone.event_time_us) == (unnamed["score"], None)
    assert (vector_alone.score, vector_alone.features["amount"], vector_alone.known) == (5.5, 2.5, {})


def test_a_prediction_is_part_of_the_trace_that_asked_for_it(
    broker: EmbeddedBroker, topic: str, tmp_path: Path
) -> None:
    trace = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"
    with (
        PredictionLog(Producer(broker.address)) as log,
        predicting(fraud(tmp_path), scoring=ModelServingContext(tmp_path, log)) as ask,
    ):
        for number, header in enumerate((trace, f"{trace}<script>")):
            said = ask("POST", PATH, event(0, id=f"traced{number}"), {"traceparent": header})
            assert said.status == 200
    found: list[ConsumerRecord] = []
    with TailingConsumer(broker.address, [topic], found.extend) as follower:
        assert follower.wait_until_caught_up(patiently(30))
    headers = {record.key: record.headers for record in found if (record.key or b"").startswith(b"traced")}
    assert headers == {b"traced0": [("traceparent", trace.encode())], b"traced1": None}


def test_challengers_score_the_same_vectors_for_the_log_alone(
    broker: EmbeddedBroker, topic: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    model = fraud(tmp_path)
    (tmp_path / "other").mkdir()
    other = VersionWatcher.load(
        fraud(tmp_path / "other", summing(1, DOUBLE), inputs=["amount"]), tmp_path
    ).live_versions.champion
    lineup = VersionWatcher.load(model, tmp_path)
    lineup.live_versions = replace(lineup.live_versions, challengers=(other,))
    monkeypatch.setattr(VersionWatcher, "load", lambda *_: lineup)
    before = len(logged(broker, topic))
    with (
        PredictionLog(Producer(broker.address)) as log,
        predicting(model, scoring=ModelServingContext(tmp_path, log)) as ask,
    ):
        answer = ask("POST", PATH, event(5)).json
    one, beside = logged(broker, topic)[before:]
    assert (one.role, one.score) == ("champion", answer["score"])
    assert (beside.role, beside.score, beside.version) == ("challenger", 6.0, other.version)
    assert beside.features == one.features
    assert (one.answered, beside.answered) == (True, False)


def test_with_a_split_the_log_says_who_answered(broker: EmbeddedBroker, topic: str, tmp_path: Path) -> None:
    contents = [
        with_metadata(summing(1, DOUBLE), **{"headrace.inputs": f'["{name}"]'}) for name in ("amount", INPUTS[0])
    ]
    versions_of(tmp_path, *contents).add_challenger("2", 0.5)
    model = hr.Model("fraud", on=payments, features=[*VIEWS], fields=["amount"], train=lambda frame: frame)
    before = len(logged(broker, topic))
    with (
        PredictionLog(Producer(broker.address)) as log,
        predicting(model, scoring=ModelServingContext(tmp_path, log)) as ask,
    ):
        events = [event(number, card=f"c{number}") for number in range(60)]
        answers = {one["id"]: answer for one, answer in zip(events, ask("POST", PATH, events).json, strict=True)}
    found = logged(broker, topic)[before:]
    assert {one["version"] for one in answers.values()} == {"1", "2"}
    assert Counter((one.event_id, one.version, one.role) for one in found) == Counter(
        (name, version, role) for name in answers for version, role in (("1", "champion"), ("2", "challenger"))
    )
    answered = {one.event_id: (one.version, one.score) for one in found if one.answered}
    assert answered == {name: (one["version"], one["score"]) for name, one in answers.items()}


def test_what_no_broker_takes_is_counted_and_said_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(prediction_log, "WRITE_SECONDS", 60)
    producer = Producer(f"{HOST}:{free_port()}", delivery_seconds=1)
    caplog.set_level(logging.ERROR, "headrace.serve")
    with (
        PredictionLog(producer, max_waiting=3) as log,
        predicting(fraud(tmp_path), scoring=ModelServingContext(tmp_path, log)) as ask,
    ):
        for number in range(10):
            assert ask("POST", PATH, event(number)).status == 200
        assert 'headrace_predictions_lost_total{model="fraud"} 7.0' in ask("GET", "/metrics").body.decode()
    assert log.lost_counts() == {"fraud": 10}  # and the three that waited, once the broker had not taken them
    said = [record.getMessage() for record in caplog.records]
    assert len([line for line in said if "more than 3 wait" in line]) == 1
    assert any("3 records were not delivered" in line for line in said)


def test_what_cannot_be_written_keeps_nothing_else_back(
    broker: EmbeddedBroker, topic: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = prediction_log.encode_prediction

    def failing(prediction: Prediction) -> bytes:
        if prediction.event_id == "p3":
            raise TypeError("no words for it")
        return whole(prediction)

    monkeypatch.setattr(prediction_log, "encode_prediction", failing)
    before = len(logged(broker, topic))
    with (
        PredictionLog(Producer(broker.address)) as log,
        predicting(fraud(tmp_path), scoring=ModelServingContext(tmp_path, log)) as ask,
    ):
        for number in range(6):
            assert ask("POST", PATH, event(number)).status == 200
    assert log.lost_counts() == {"fraud": 1}
    assert {one.event_id for one in logged(broker, topic)[before:]} == {"p0", "p1", "p2", "p4", "p5"}


def test_a_log_without_a_broker_keeps_nothing() -> None:
    assert PredictionLog().lost_counts() == {}
