"""The whole loop under `headrace up`: labels reveal a bad champion, an alert fires, and it is replaced once."""

import os
import random
import subprocess
import sys
import time
from collections import Counter
from datetime import timedelta
from itertools import count
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from lightgbm import LGBMClassifier

import headrace as hr
from headrace.kafka.consumers.last_records import LastRecordsReader
from headrace.kafka.producer.producer import Producer
from headrace.models.inference.prediction import Prediction, decode_prediction
from headrace.models.online_learning.learner import Learner, learner_version
from headrace.models.online_learning.online_updates import decode_page
from headrace.models.training.training import TrainingConfig, train_model
from headrace.models.versions.version_store import VersionStore
from tests.faults import loop_app
from tests.monitoring.lake_tables import NOON, land
from tests.running import Running
from tests.waiting import wait_until

APP = Path(__file__).with_name("loop_app.py")
LABELLED_AFTER = 3  # rounds
DICE = random.Random(1)


def hopeless(frame: Any) -> Any:
    shuffled = frame["fraud"].sample(frac=1, random_state=0).to_numpy()
    return LGBMClassifier(n_estimators=2, n_jobs=1, verbose=-1).fit(frame.drop(columns="fraud"), shuffled)


def hopeless_champion(state: Path) -> VersionStore:
    """A first version that knows nothing."""
    chance, declared = np.random.default_rng(0), loop_app.fraud
    columns = {column.name: chance.integers(0, 90, 500) for column in declared.vector}
    at = pa.array(np.arange(500) * 10**9, pa.timestamp("us", "UTC"))
    told = pa.table({**columns, "country": ["FR"] * 500, "at": at, "fraud": chance.random(500) < 0.5})
    model = hr.Model("fraud", on=declared.stream, features=declared.views, fields=declared.fields, train=hopeless,
                     inputs=declared.inputs, labels=declared.labels)  # fmt: skip
    versions = VersionStore(state, "fraud")
    train_model(model, told, TrainingConfig("at"), versions)
    return versions


class Shop:
    """Payments, and their labels some seconds later: the large ones are fraud."""

    def __init__(self, running: Running) -> None:
        self._producer, self._rounds = Producer(running.broker), list[list[tuple[str, float, int]]]()
        self._numbers = count()

    def sell(self, payments: int = 20) -> None:
        now_ms = time.time_ns() // 1_000_000
        self._rounds.append([(f"p{next(self._numbers)}", DICE.expovariate(1 / 40), now_ms) for _ in range(payments)])
        for number, (name, amount, at) in enumerate(self._rounds[-1]):
            event = {"id": name, "card": f"c{number}", "country": ["FR", "DE"][number % 2], "amount": amount, "at": at}
            self._producer.send("payments", event, key=event["card"])
        for name, amount, at in self._rounds[-LABELLED_AFTER] if len(self._rounds) >= LABELLED_AFTER else []:
            self._producer.send("chargebacks", {"id": name, "fraud": amount > 60, "at": at + 1000}, key=name)
        self._producer.flush()
        time.sleep(1.0)


def predictions(running: Running) -> list[Prediction]:
    return [
        decode_prediction(record.value or b"")
        for record in LastRecordsReader(running.broker, "fraud.predictions", 10**6).read_new_records()
    ]


@pytest.mark.faults
@pytest.mark.timeout(600)
def test_a_bad_champion_is_alarmed_replaced_once_and_followed(tmp_path: Path) -> None:
    versions = hopeless_champion(tmp_path / "state")
    flags = ("--alerts-every", "1s", "--lake-every", "10s")
    with Running(APP, tmp_path / "state", *flags) as running:
        running.wait_until_ready()
        shop, opened = Shop(running), time.monotonic()

        log = tmp_path / "state" / "logs" / "retrain.log"

        def alarmed() -> bool:
            shop.sell()
            return "Retraining fraud" in log.read_text()

        wait_until(alarmed, 240, "the alert to train", running.said)
        sys.stdout.write(f"trained {time.monotonic() - opened:.0f} s after the shop opened\n")
        wait_until(lambda: versions.load_roles().champion != "1", 300, "a better champion", running.said)
        sys.stdout.write(
            f"replaced after {time.monotonic() - opened:.0f} s: {versions.load_card('2').retrained['reason']}\n"
        )
        began = time.monotonic()
        asked = {"id": "x", "card": "c1", "country": "FR", "amount": 5.0}
        wait_until(lambda: running.predict("fraud", asked)["version"] == "2", 30, "the server to follow", running.said)
        sys.stdout.write(f"the server followed after {time.monotonic() - began:.2f} s\n")
        low, high = (running.predict("fraud", {**asked, "amount": amount})["score"] for amount in (5.0, 300.0))
        assert low < high

        def followed() -> bool:
            shop.sell()
            return any(one.version == "2" and one.source == "stream" for one in predictions(running))

        wait_until(followed, 60, "the scorer to follow", running.said)
        for _ in range(12):  # two more looks of the part, while the alert still fires
            shop.sell()
        assert versions.list_versions() == ["1", "2"], running.said()
        told = versions.load_card("2").retrained
        assert (told["why"], told["against"], told["promoted"]) == ("alert 'auc drop' fires", "1", True)
        assert log.read_text().count("Retraining fraud") == 1
        require_learner(running)


def require_learner(running: Running) -> None:
    """What learns stands beside the champion, on the same vectors, and is better than nothing by now."""
    name, by = learner_version(loop_app.fraud), Counter[tuple[str, str]]()
    found = predictions(running)
    by.update((one.version, one.role) for one in found)
    assert by[name, "challenger"] > 100
    vectors = {(one.event_id, str(one.features)) for one in found if one.source == "stream"}
    assert len(vectors) == len({event for event, _ in vectors})
    learner = Learner(loop_app.fraud)
    for record in LastRecordsReader(running.broker, "fraud.lessons", 10**6).read_new_records():
        page = decode_page(record.value)
        assert page is not None
        learner.learn(page)
    assert learner.next_update > 100
    assert learner.skipped_count == 0
    low, high = learner.score_rows([[1, 40.0, 5.0], [1, 40.0, 200.0]])
    assert low < high
    sys.stdout.write(f"{learner.next_update} lessons; predictions {dict(by)}\n")


BAD = {
    "raises": "its train= raised ZeroDivisionError: nothing to divide by. Its champion stays live.",
    "returns nothing": "train= returned None. Return a fitted regressor",
    "is worse": "fraud version 3 is challenger: auc",
    "hangs": "was not trained within 1m, the limit= of hr.Retrain",
}


def retrain(state: Path, fit: str, **environment: str) -> subprocess.Popen[str]:
    command = [sys.executable, "-m", "headrace", "retrain", str(APP), "fraud", "--state", str(state)]
    given = {**os.environ, "LOOP_FIT": fit, **environment}
    return subprocess.Popen(
        [*command, "--lake", str(state / "lake")],
        env=given,
        text=True,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
    )


@pytest.mark.faults
@pytest.mark.timeout(600)
def test_trainings_that_go_wrong_change_nothing(tmp_path: Path) -> None:
    state, chance = tmp_path / "state", np.random.default_rng(0)
    versions = hopeless_champion(state)
    moments = [NOON + timedelta(seconds=number) for number in range(600)]
    amount, ids = chance.exponential(40, 600), [f"p{number}" for number in range(600)]
    of = {"id": ids, "card": ["c1", "c2"] * 300, "country": ["FR", "DE", "FR"] * 200, "amount": amount}
    land(state / "lake", loop_app.payments, of, moments)
    land(state / "lake", loop_app.chargebacks, {"id": ids, "fraud": amount > 60}, moments)
    said = {}
    hanging = retrain(state, "hangs", LOOP_LIMIT="1m")
    wait_until((versions.folder / ".retraining").exists, 20, "it to begin")
    refused, _ = retrain(state, "good").communicate(timeout=90)
    assert "is already being retrained" in refused
    said["hangs"], _ = hanging.communicate(timeout=120)
    few, _ = retrain(state, "good", LOOP_AT_LEAST="100000").communicate(timeout=120)
    assert "too few to tell: at_least=100000" in few
    for fit in ("raises", "returns nothing", "is worse"):
        said[fit], _ = retrain(state, fit).communicate(timeout=120)
        sys.stdout.write(said[fit])
    assert {fit: BAD[fit] in said[fit] for fit in BAD} == dict.fromkeys(BAD, True), said
    assert (versions.load_roles().champion, versions.list_versions()) == ("1", ["1", "2", "3"])
