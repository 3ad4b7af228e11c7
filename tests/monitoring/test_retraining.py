"""An alert fires: one of two processes retrains, the better model is promoted, and scorers follow."""

import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from lightgbm import LGBMClassifier

import headrace as hr
from headrace.embedded_servers.broker import EmbeddedBroker
from headrace.embedded_servers.child_process import ChildProcess
from headrace.kafka.compacted_topic import ensure_compacted_topic
from headrace.kafka.producer.producer import Producer
from headrace.models.training.training import TrainingConfig, train_model
from headrace.models.versions.live_versions import VersionWatcher
from headrace.models.versions.version_store import VersionStore
from headrace.telemetry.alerts.alert_state import AlertState, Phase
from headrace.telemetry.alerts.alerts_topic import TOPIC, write_alert_state
from tests.monitoring import app
from tests.monitoring.lake_tables import land_payments
from tests.waiting import patiently, wait_until

APP = Path(__file__).with_name("app.py")


def hopeless(frame: Any) -> Any:
    trees = LGBMClassifier(n_estimators=2, n_jobs=1, verbose=-1)
    return trees.fit(frame.drop(columns="fraud"), frame["fraud"].sample(frac=1, random_state=0).to_numpy())


def hopeless_champion(state: Path) -> VersionStore:
    """A first version that knows nothing."""
    chance = np.random.default_rng(0)
    columns = {column.name: pa.array(chance.integers(0, 90, 500), column.type.replace("bigint", "int64"))
               for column in app.fraud.vector}  # fmt: skip
    at = pa.array(np.arange(500) * 10**9, pa.timestamp("us", "UTC"))
    told = pa.table(columns | {"at": at, "fraud": chance.random(500) < 0.5})
    declared = hr.Model("fraud", on=app.payments, features=[app.CardSpend], fields=["amount"], train=hopeless,
                        labels=app.fraud.labels)  # fmt: skip
    versions = VersionStore(state, "fraud")
    train_model(declared, told, TrainingConfig("at"), versions)
    return versions


def fire(broker: str) -> None:
    now_us = time.time_ns() // 1000
    ensure_compacted_topic(broker, TOPIC)
    with Producer(broker) as producer:
        write_alert_state(producer, app.auc_drop, AlertState(now_us, now_us, Phase.FIRING, 0.5), "0.5")


def spoke(said: str) -> bool:
    """Whether of all that began to train one did, and others were refused."""
    refused = said.count("is already being retrained") + said.count("was retrained just now")
    return said.count("Retraining fraud") == 1 + refused


@pytest.mark.timeout(240)
@pytest.mark.faults
def test_an_alert_trains_once_and_the_better_takes_over(tmp_path: Path, broker: EmbeddedBroker) -> None:
    versions = hopeless_champion(tmp_path)
    lineup = VersionWatcher.load(app.fraud, tmp_path)
    land_payments(tmp_path / "lake")
    fire(broker.address)
    where = ["--broker", broker.address, "--state", str(tmp_path), "--lake", str(tmp_path / "lake")]
    command = [sys.executable, "-m", "headrace", "run", str(APP), "retrain", *where]
    logs = [tmp_path / f"{name}.log" for name in ("one", "other")]
    parts = [ChildProcess(command, folder=Path.cwd(), output=log) for log in logs]
    said = lambda: "\n".join(log.read_text() for log in logs)  # noqa: E731
    for part in parts:
        part.start()
    try:
        wait_until(lambda: "is champion" in said() and spoke(said()), 180, "both to have their say", said)
    finally:
        for part in parts:
            part.stop(20)
    assert versions.list_versions() == ["1", "2"]
    assert versions.load_card("2").retrained["why"] == "alert 'auc drop' fires"
    assert versions.load_card("2").retrained["challenger"] > 0.95
    lineup.refresh()
    assert lineup.live_versions.champion.version == versions.load_roles().champion == "2"


HANGING = """
import sys
from headrace.cli.commands.models import retrain
retrain.GRACE_SECONDS = 0.5
with retrain.exit_after(300_000, lambda: print("given up", flush=True)):
    {hangs}
"""


@pytest.mark.parametrize(
    ("hangs", "said"),
    [
        ("while True: pass", "given up"),
        ("import re; re.match('(a+)+$', 'a' * 60 + 'b')", "Timeout (0:00:00.8"),  # never lets go of the interpreter
        ("pass", ""),
    ],
)
def test_a_training_that_hangs_is_ended(hangs: str, said: str) -> None:
    done = subprocess.run(
        [sys.executable, "-c", HANGING.format(hangs=hangs)],
        capture_output=True,
        text=True,
        timeout=patiently(30),
        check=False,
    )
    assert said in done.stdout + done.stderr
    assert done.returncode == (1 if said else 0)
