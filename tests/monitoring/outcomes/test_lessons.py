"""Online learning from outcomes equals River's own run over them in order, despite restarts and kill -9."""

import json
import random
from collections.abc import Iterator
from itertools import count, pairwise
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable
from pyspark.sql import SparkSession

import headrace as hr
from headrace.embedded_servers.broker import EmbeddedBroker
from headrace.kafka.consumers.last_records import LastRecordsReader
from headrace.models.online_learning.learner import Learner, learner_version
from headrace.models.online_learning.online_updates import decode_page
from headrace.monitoring.outcomes.outcomes import LabelEvent, PredictionEvent
from tests.lake.test_kills import child, wait_at_random
from tests.monitoring.histories import MINUTE, SECOND, Told
from tests.monitoring.outcomes.test_label_join import NOW_US, joining
from tests.monitoring.prediction_records import (
    FAR_US,
    new_learning_model,
    online,
    send,
    standings,
    tell_time,
    with_topics,
)
from tests.waiting import wait_until

_numbers = count()
Features = dict[str, Any]


def history(model: hr.Model, seed: int, events: int) -> tuple[list[Told], dict[str, Features]]:
    """Predictions of the learner and of another version, labels of every kind; and the vectors that were served."""
    dice, told, served = random.Random(seed), list[Told](), dict[str, Features]()
    for number in range(events):
        event, at_us = f"p{number:04}", NOW_US - 10 * MINUTE + number * SECOND
        served[event] = {"payments_1h": dice.randint(0, 9), "amount": dice.choice([None, dice.expovariate(0.02)])}
        vector = json.dumps(served[event])
        mine = PredictionEvent(
            learner_version(model), "champion", 0.5, None, "{}", at_us, at_us + SECOND, 0, len(told), vector
        )
        told += [(event, mine)] * dice.choice([1, 1, 2])  # the second time it may have seen something else
        told.append((event, PredictionEvent("7", "challenger", 0.3, None, "{}", at_us, at_us + SECOND, 0, len(told))))
        for _ in range(dice.choice([0, 1, 1, 2])):
            label_us = at_us + dice.choice([-30 * SECOND, MINUTE, 4 * MINUTE, 6 * MINUTE])
            told.append((event, LabelEvent(label_us, label_us, 0, len(told), float(dice.random() < 0.5))))
    dice.shuffle(told)
    return told, served


def taught_by_outcomes(lake: Path, model: hr.Model, served: dict[str, Features]) -> list[tuple[Features, bool]]:
    """From the table of outcomes alone, batch by batch: whose label counted for the first time, and which."""
    found, seen = [], set[str]()
    for rows in _batches(lake / f"gold/{model.name}_outcomes"):
        first = [
            row for row in rows if row["version"] == learner_version(model) and row["state_before"] in {None, "pending"}
        ]
        counted = [row for row in first if row["state_after"] in {"matched", "defaulted"}]
        for row in sorted(counted, key=lambda row: (row["minute_us"], row["id"])):
            assert row["id"] not in seen
            seen.add(row["id"])
            known = {name: float(value) for name, value in served[row["id"]].items() if value is not None}
            found.append((known, row["label_after"] == 1.0))
    return found


def _batches(folder: Path) -> Iterator[list[dict[str, Any]]]:
    known: set[str] = set()
    for version in range(DeltaTable(folder).version() + 1):
        files = set(DeltaTable(folder, version=version).file_uris())
        yield [row for file in sorted(files - known) for row in pq.ParquetFile(file).read().to_pylist()]
        known = files


def require_learned(broker: str, folder: Path, model: hr.Model, served: dict[str, Features]) -> None:
    """All is over: each event was learned from once, and the learner is River over the outcomes as they came."""
    lessons = taught_by_outcomes(folder / "lake", model, served)
    assert len(lessons) == len(served)
    river, learner = online(), Learner(model)
    for features, label in lessons:
        river.learn_one(features, label)
    for record in LastRecordsReader(broker, model.lessons, 10**6).read_new_records():
        page = decode_page(record.value)
        assert page is not None
        learner.learn(page)
    assert (learner.next_update, learner.skipped_count) == (len(served), 0)
    rows = [(payments, amount) for payments in (0, 5, None) for amount in (1.5, 80.0, None)]
    asked = [
        {name: float(value) for name, value in zip(("payments_1h", "amount"), row, strict=True) if value is not None}
        for row in rows
    ]
    assert learner.score_rows(rows).tolist() == [river.predict_proba_one(one)[True] for one in asked]


def heard(broker: str, model: hr.Model) -> int:
    pages = [decode_page(record.value) for record in LastRecordsReader(broker, model.lessons, 1).read_new_records()]
    return 0 if not pages or pages[-1] is None else pages[-1].end


def judged(folder: Path, model: hr.Model, version: str) -> int:
    """How many predictions of a version have an outcome."""
    return sum(n for of, n in standings(folder / "lake", model).items() if of[1] == version and of[7] != "pending")


def test_what_is_learned_is_rivers_run_over_the_outcomes_through_restarts(
    spark: SparkSession, broker: EmbeddedBroker, tmp_path: Path
) -> None:
    model = with_topics(broker.address, new_learning_model(f"lessons{next(_numbers)}"))
    told, served = history(model, 1, events=60)
    for begin, end in pairwise([0, len(told) // 2, len(told)]):
        before = heard(broker.address, model)
        send(broker.address, model, told[begin:end])
        with joining(spark, model, broker.address, tmp_path):
            wait_until(lambda before=before: heard(broker.address, model) > before, 60, "lessons")  # type: ignore[misc]
    with joining(spark, model, broker.address, tmp_path):
        tell_time(broker.address, model, FAR_US)
        wait_until(lambda: heard(broker.address, model) == len(served), 60, "every outcome to be learned from")
    require_learned(broker.address, tmp_path, model, served)
    assert judged(tmp_path, model, learner_version(model)) == judged(tmp_path, model, "7") == len(served)


@pytest.mark.faults
@pytest.mark.timeout(1200)
def test_kills_while_lessons_are_written_change_nothing(
    spark: SparkSession, broker: EmbeddedBroker, tmp_path: Path
) -> None:
    kills, dice, output = 4, random.Random(3), tmp_path / "child.out"
    name = f"taught{next(_numbers)}"
    model = with_topics(broker.address, new_learning_model(name))
    told, served = history(model, 2, events=160)
    cuts = [len(told) * part // kills for part in range(kills + 1)]
    for begin, end in pairwise(cuts):
        send(broker.address, model, told[begin:end])
        with child(
            "tests.monitoring.child_joins", "stream", broker.address, str(tmp_path), name, output=output
        ) as running:
            wait_at_random(dice, running, output.read_text, "joined", 4.0)
    with joining(spark, model, broker.address, tmp_path):
        tell_time(broker.address, model, FAR_US)
        wait_until(lambda: heard(broker.address, model) == len(served), 120, "every outcome to be learned from")
    require_learned(broker.address, tmp_path, model, served)
