"""Each label that counts makes one online update, in one order for all readers, whenever the writer is killed."""

import random
from contextlib import suppress
from itertools import count

import orjson
import pyarrow as pa
import pytest

import headrace as hr
from headrace.embedded_servers.broker import EmbeddedBroker
from headrace.kafka.consumers.last_records import LastRecordsReader
from headrace.kafka.producer.producer import Producer
from headrace.models.online_learning.learner import Learner
from headrace.models.online_learning.learner_replica import LearnerNotReadyError, LearnerReplica
from headrace.models.online_learning.online_updates import OnlineUpdate, UpdatePage, decode_page
from headrace.monitoring import online_update_writer
from headrace.monitoring.online_update_writer import OnlineUpdateWriter
from tests.monitoring.prediction_records import new_learning_model, online, with_topics
from tests.waiting import wait_until

_numbers = count()


def learning_model(broker: str) -> hr.Model:
    return with_topics(broker, new_learning_model(f"teach{next(_numbers)}"))


def changes(ids: range, minute: int = 0) -> pa.Table:
    """Changes as a batch has them, in any order; every third is no lesson."""
    chance = random.Random(ids.start)
    rows = [
        {
            "id": f"p{number:04}",
            "minute_us": minute,
            "features": orjson.dumps({"payments_1h": number % 5, "amount": chance.random() * 90}).decode()
            if number % 3
            else None,
            "label_after": float(chance.random() < 0.4),
        }
        for number in ids
    ]
    chance.shuffle(rows)
    return pa.Table.from_pylist(rows)


def expected(tables: list[pa.Table]) -> list[OnlineUpdate]:
    rows = [sorted(table.to_pylist(), key=lambda row: (row["minute_us"], row["id"])) for table in tables]
    lessons = [row for some in rows for row in some if row["features"] is not None]
    return [OnlineUpdate(row["id"], orjson.loads(row["features"]), row["label_after"]) for row in lessons]


def pages(broker: str, model: hr.Model) -> list[UpdatePage]:
    found = [decode_page(record.value) for record in LastRecordsReader(broker, model.lessons, 10**6).read_new_records()]
    return [page for page in found if page is not None]


def opened(broker: str, model: hr.Model, epoch: str = "one", generation: int = 10**6) -> OnlineUpdateWriter:
    teacher = OnlineUpdateWriter(model, broker, generation)
    teacher.open(epoch)
    return teacher


def test_every_lesson_is_written_once_through_crashes(broker: EmbeddedBroker, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(online_update_writer, "UPDATES_PER_PAGE", 7)
    model, chance = learning_model(broker.address), random.Random(5)
    batches = [changes(range(start, start + 60)) for start in range(0, 480, 60)]
    for number, batch in enumerate(batches):
        for _ in range(chance.randint(0, 2)):  # killed after some pages, before Spark knows the batch is done
            teacher = opened(broker.address, model)
            left = [chance.randint(0, 5)]

            def send(
                producer: Producer, page: UpdatePage, known: OnlineUpdateWriter = teacher, left: list[int] = left
            ) -> None:
                if not left[0]:
                    raise KeyboardInterrupt
                left[0] -= 1
                OnlineUpdateWriter._send_page(known, producer, page)

            monkeypatch.setattr(teacher, "_send_page", send)
            with suppress(KeyboardInterrupt):
                teacher.write_updates(batch.take(chance.sample(range(60), 60)), number)
        opened(broker.address, model).write_updates(batch, number)
        opened(broker.address, model).write_updates(batch, number)  # comes again though all of it was written
    found = pages(broker.address, model)
    assert [lesson for page in found for lesson in page.lessons] == expected(batches)
    assert [page.first for page in found] == [sum(len(page.lessons) for page in found[:n]) for n in range(len(found))]


def test_of_old_lessons_two_generations_stay_and_whoever_starts_learns_the_same(
    broker: EmbeddedBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(online_update_writer, "UPDATES_PER_PAGE", 16)
    model = learning_model(broker.address)
    batches = [changes(range(start, start + 60)) for start in range(0, 360, 60)]
    followed, seen = Learner(model, 50), 0
    for number, batch in enumerate(batches):
        opened(broker.address, model, generation=50).write_updates(batch, number)
        for page in pages(broker.address, model):
            followed.learn(page)
        seen = sum(len(expected([one])) for one in batches[: number + 1])
    left = pages(broker.address, model)
    begun = ((seen - 1) // 50 - 1) * 50
    assert (left[0].first, left[-1].end) == (begun, seen)
    started, river = Learner(model, 50), online()
    for page in left:
        started.learn(page)
    for lesson in expected(batches)[begun:]:
        river.learn_one({name: float(value) for name, value in lesson.features.items()}, lesson.label == 1.0)
    rows = [[payments, amount] for payments in range(5) for amount in (1.0, 50.0)]
    asked = [{"payments_1h": float(one), "amount": other} for one, other in rows]
    answers = started.score_rows(rows).tolist()
    assert answers == followed.score_rows(rows).tolist() == [river.predict_proba_one(one)[True] for one in asked]


def test_outcomes_made_anew_are_lessons_from_the_first(broker: EmbeddedBroker) -> None:
    model = learning_model(broker.address)
    opened(broker.address, model).write_updates(changes(range(60)), 7)
    opened(broker.address, model, "other").write_updates(changes(range(90)), 0)
    found = pages(broker.address, model)
    assert [(page.epoch, page.first, page.batch) for page in found] == [("one", 0, 7), ("other", 0, 0)]


def test_it_answers_once_it_has_learned_what_there_was_and_learns_on(broker: EmbeddedBroker) -> None:
    model = learning_model(broker.address)
    opened(broker.address, model).write_updates(changes(range(60)), 0)
    with Producer(broker.address) as producer:
        producer.send(model.lessons, b"no page")
    learning = LearnerReplica(model, broker.address)
    with pytest.raises(LearnerNotReadyError, match="still applies earlier updates"):
        _ = learning.loaded_version
    learning.start()
    try:
        wait_until(lambda: learning.is_ready, 20, "the past to be learned")
        before = learning.loaded_version.scorer.score_rows([[1, 80.0]]).tolist()
        river = online()
        for lesson in expected([changes(range(60))]):
            river.learn_one({name: float(value) for name, value in lesson.features.items()}, lesson.label == 1.0)
        assert before == [river.predict_proba_one({"payments_1h": 1.0, "amount": 80.0})[True]]
        opened_again = opened(broker.address, model)
        opened_again.write_updates(changes(range(60, 120)), 1)
        wait_until(
            lambda: learning.loaded_version.scorer.score_rows([[1, 80.0]]).tolist() != before, 20, "more to be learned"
        )
    finally:
        learning.stop()
