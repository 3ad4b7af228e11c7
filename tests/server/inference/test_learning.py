"""A model with online learning predicts as any other; beside a batch model it scores the same vectors, for the log."""

import math
from itertools import count
from pathlib import Path
from typing import Any

import pytest
from river import linear_model, preprocessing

import headrace as hr
from headrace.embedded_servers.broker import EmbeddedBroker
from headrace.kafka.compacted_topic import ensure_compacted_topic
from headrace.kafka.consumers.last_records import LastRecordsReader
from headrace.kafka.producer.producer import Producer
from headrace.models.inference.prediction import decode_prediction
from headrace.models.online_learning.learner import Learner, learner_version
from headrace.models.online_learning.online_updates import OnlineUpdate, UpdatePage, encode_page
from headrace.monitoring.online_update_writer import UPDATES_PER_PAGE
from headrace.server.inference.model_resolver import ModelServingContext
from headrace.server.inference.prediction_log import PredictionLog
from tests.server.prediction_app import INPUTS, VIEWS, event, fraud, payments, predicting
from tests.waiting import wait_until

LABELS = hr.Labels(
    hr.Stream("told", schema="id string, fraud boolean, at timestamp", id="id", key="id", time="at"),
    value="fraud", within="10m",
)  # fmt: skip
TAUGHT = [
    OnlineUpdate(
        f"l{number}", {"payments_1h": number % 9, "cards_1h": 1, "amount": number * 0.7}, float(number % 50 > 25)
    )
    for number in range(300)
]
_numbers = count()


def online() -> Any:
    return preprocessing.StandardScaler() | linear_model.LogisticRegression()


def learning_alone(name: str) -> hr.Model:
    given: dict[str, Any] = {"features": [*VIEWS], "fields": ["amount"], "inputs": INPUTS, "budget": "60s"}
    return hr.Model(name, on=payments, learn=online, labels=LABELS, **given)


@pytest.fixture
def name(broker: EmbeddedBroker) -> str:
    found = f"learns{next(_numbers)}"
    for topic in (f"{found}.lessons", f"{found}.predictions"):
        ensure_compacted_topic(broker.address, topic)
    return found


def teach(broker: EmbeddedBroker, model: hr.Model, lessons: list[OnlineUpdate], first: int = 0) -> None:
    assert len(lessons) <= UPDATES_PER_PAGE
    with Producer(broker.address) as producer:
        page = UpdatePage("one", first, first, 0, (0, 0), tuple(lessons))
        producer.send(model.lessons, encode_page(page), key=str(first))


def test_it_answers_as_it_was_taught_and_learns_while_it_does(
    broker: EmbeddedBroker, name: str, tmp_path: Path
) -> None:
    model = learning_alone(name)
    teach(broker, model, TAUGHT[:200])
    learner = Learner(model)
    with (
        PredictionLog(Producer(broker.address)) as log,
        predicting(model, scoring=ModelServingContext(tmp_path, log, broker.address)) as ask,
    ):
        wait_until(lambda: ask("POST", f"/predict/{name}", event(5)).status == 200, 20, "the past to be learned")
        for first, last in ((0, 200), (200, 300)):
            learner.learn(UpdatePage("one", first, first, 0, (0, 0), tuple(TAUGHT[first:last])))
            if first:
                teach(broker, model, TAUGHT[first:last], first)

            def is_as_taught() -> bool:
                answer = ask("POST", f"/predict/{name}", event(5)).json
                row = [answer["features"][column] for column in INPUTS]
                return bool(
                    answer["score"] == learner.score_rows([row])[0] and answer["version"] == learner_version(model)
                )

            wait_until(is_as_taught, 20, f"{last} lessons to be learned")
        assert ask("GET", f"/v2/models/{name}/ready").status == 200
    logged = [
        decode_prediction(record.value or b"")
        for record in LastRecordsReader(broker.address, model.predictions, 10**6).read_new_records()
    ]
    assert {(one.version, one.role, one.answered) for one in logged} == {(learner_version(model), "champion", True)}


def test_beside_a_batch_model_it_scores_the_same_vector_and_never_answers(
    broker: EmbeddedBroker, name: str, tmp_path: Path
) -> None:
    of_file = fraud(tmp_path)
    model = hr.Model(name, on=payments, file=str(of_file.file), features=[*VIEWS], fields=["amount"], inputs=INPUTS,
                     budget="60s", learn=online, labels=LABELS)  # fmt: skip
    teach(broker, model, TAUGHT)
    learner = Learner(model)
    learner.learn(UpdatePage("one", 0, 0, 0, (0, 0), tuple(TAUGHT)))

    def logged() -> list[Any]:
        return [
            decode_prediction(record.value or b"")
            for record in LastRecordsReader(broker.address, model.predictions, 10**6).read_new_records()
        ]

    with (
        PredictionLog(Producer(broker.address)) as log,
        predicting(model, scoring=ModelServingContext(tmp_path, log, broker.address)) as ask,
    ):
        answers = count(100)

        def is_beside() -> bool:
            assert ask("POST", f"/predict/{name}", event(next(answers))).json["version"] != learner_version(model)
            return any(one.role == "challenger" for one in logged())

        wait_until(is_beside, 30, "what learns to stand beside the file")
    beside = [one for one in logged() if one.role == "challenger"]
    champions = {one.event_id: one for one in logged() if one.role == "champion"}
    for one in beside:
        assert (one.version, one.answered) == (learner_version(model), False)
        assert one.features == champions[one.event_id].features
        assert one.score == learner.score_rows([[one.features[column] for column in INPUTS]])[0]


class Superstitious:
    """Has no number for an amount of 13, and raises on 666."""

    def learn_one(self, _features: dict[str, Any], _label: bool) -> None:
        """It knows all it wants to know."""

    def predict_proba_one(self, features: dict[str, Any]) -> dict[bool, float]:
        return {True: {13.0: math.nan, 666.0: features.get("no such")}.get(features.get("amount", 0.0), 0.25)}


def test_a_vector_it_has_no_number_for_is_refused_and_others_are_answered(
    broker: EmbeddedBroker, name: str, tmp_path: Path
) -> None:
    given: dict[str, Any] = {"features": [*VIEWS], "fields": ["amount"], "inputs": INPUTS, "budget": "60s"}
    model = hr.Model(name, on=payments, learn=Superstitious, labels=LABELS, **given)
    with predicting(model, scoring=ModelServingContext(tmp_path, PredictionLog(), broker.address)) as ask:
        wait_until(lambda: ask("POST", f"/predict/{name}", event(5)).status == 200, 20, "it to be ready")
        for amount in (13.0, 666.0):
            said = ask("POST", f"/predict/{name}", event(5, amount=amount))
            assert (said.status, "answers nan" in said.json["error"]) == (503, True)
        assert ask("POST", f"/predict/{name}", event(5)).json["score"] == 0.25


def test_without_a_log_to_learn_from_it_says_so(tmp_path: Path) -> None:
    with predicting(learning_alone("learns")) as ask:
        said = ask("POST", "/predict/learns", event(5))
    assert said.status == 503
    assert "learns from a log" in said.json["error"]
