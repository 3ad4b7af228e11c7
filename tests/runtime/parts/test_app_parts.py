"""The processes of an app, and which evaluations of its models run."""

from dataclasses import replace
from itertools import chain
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from click.testing import CliRunner

import headrace as hr
from headrace.cli import main
from headrace.declare.app import App, build_app
from headrace.embedded_servers.ports import HOST, free_port
from headrace.lake.lake import LakeConfig
from headrace.monitoring.drift.drift_worker import DriftEvaluationConfig, create_drift_setups
from headrace.runtime.parts.app_parts import list_parts
from headrace.runtime.parts.lake_part import lake_tables
from headrace.telemetry.alerts.default_alerts import app_alerts
from tests.runtime.test_settings import settings

payments = hr.Stream("payments", schema="id string, card string, at timestamp", id="id", key="card", time="at")


@hr.features(payments, by="card")
class CardSpend:
    payments = hr.count(windows="1h")


LEARNS = """
import headrace as hr
payments = hr.Stream("payments", schema="id string, card string, at timestamp", id="id", key="card", time="at")
told = hr.Stream("told", schema="id string, ok boolean, at timestamp", id="id", key="id", time="at")
@hr.features(payments, by="card")
class CardSpend:
    payments = hr.count(windows="1h")
labels = hr.Labels(told, value="ok", within="1h")
fraud = hr.Model("fraud", on=payments, features=[CardSpend], learn=object, labels=labels)
"""


def app(**how: object) -> App:
    module = ModuleType("shop")
    vars(module).update(fraud=hr.Model("fraud", on=payments, features=[CardSpend], **how))  # type: ignore[arg-type]
    return build_app(module)


def test_operators_have_a_process_of_their_own_where_there_are_any() -> None:
    module = ModuleType("visits")
    vars(module).update(stream=payments)
    assert "operate" not in list_parts(settings(), build_app(module))[0]
    vars(module).update(visits=hr.windowed("visits", payments, by="card", over=hr.Session("1m"), n=hr.count()).out)
    assert "operate" in list_parts(settings(), build_app(module))[0]


def test_streams_that_come_from_elsewhere_have_a_bridge() -> None:
    module = ModuleType("visits")
    vars(module).update(stream=payments)
    assert "bridge" not in list_parts(settings(), build_app(module))[0]
    from_, columns = hr.Nats("nats://127.0.0.1:4222", stream="VISITS"), "id string, at timestamp"
    vars(module).update(visits=hr.Stream("visits", schema=columns, id="id", key="id", time="at", from_=from_))
    assert "bridge" in list_parts(settings(), build_app(module))[0]


@pytest.mark.parametrize(
    ("how", "has_it"), [({"train": lambda frame: frame}, True), ({"file": "fraud.onnx"}, False), ("labels", True)]
)
def test_evaluation_has_a_process_of_its_own_where_a_model_has_labels_or_drift(how: Any, has_it: bool) -> None:
    told = hr.Stream("told", schema="id string, ok boolean, at timestamp", id="id", key="id", time="at")
    labelled = {"file": "fraud.onnx", "labels": hr.Labels(told, value="ok", within="1h")}
    judged = app(**(labelled if how == "labels" else how))
    with_lake = replace(settings(), lake=Path("l"))
    assert ("evaluate" in list_parts(with_lake, judged)[1]) == has_it
    assert "evaluate" not in chain(*list_parts(settings(), judged))
    module = ModuleType("visits")
    vars(module).update(stream=payments)
    assert "evaluate" not in chain(*list_parts(with_lake, build_app(module)))


def test_evaluation_is_started_after_the_lake() -> None:
    others = list_parts(replace(settings(), lake=Path("l")), app(train=lambda frame: frame))[1]
    assert others.index("lake") < others.index("evaluate")


def test_models_that_are_trained_are_compared_and_those_of_a_file_are_not(tmp_path: Path) -> None:
    lake = LakeConfig(tmp_path / "lake", f"{HOST}:{free_port()}", ())
    (setup,) = create_drift_setups(app(train=lambda frame: frame), DriftEvaluationConfig(lake, tmp_path))
    assert setup.name == "fraud.drift"
    assert not setup.create_workers().has_warmed_up
    assert create_drift_setups(app(file="fraud.onnx"), DriftEvaluationConfig(lake, tmp_path)) == []


def test_a_model_that_learns_alone_has_no_drift_and_no_alert_of_it(tmp_path: Path) -> None:
    told = hr.Stream("told", schema="id string, ok boolean, at timestamp", id="id", key="id", time="at")
    learns = app(learn=object, labels=hr.Labels(told, value="ok", within="1h"))
    lake = LakeConfig(tmp_path / "lake", f"{HOST}:{free_port()}", ())
    assert create_drift_setups(learns, DriftEvaluationConfig(lake, tmp_path)) == []
    assert "gold/fraud_drift" not in [table.table for table in lake_tables(learns)]
    names = [alert.name for alert in app_alerts(learns, "shop.py")]
    assert "fraud: quality" in names
    assert "fraud: drift" not in names
    assert "fraud: drift" in [alert.name for alert in app_alerts(app(train=lambda frame: frame), "shop.py")]


def test_drift_of_a_model_that_learns_alone_is_refused_with_what_to_ask_instead(tmp_path: Path) -> None:
    (tmp_path / "app.py").write_text(LEARNS)
    words = ["drift", str(tmp_path / "app.py"), "fraud", "--state", str(tmp_path)]
    said = CliRunner().invoke(main, words)
    assert said.exit_code == 1
    assert "'fraud' learns from each outcome, and has no card" in said.output
    assert "headrace quality APP fraud" in said.output


def test_an_outbox_has_a_process_of_its_own_where_one_is_declared() -> None:
    module = ModuleType("shop")
    vars(module).update(stream=payments)
    assert "outbox" not in list_parts(settings(), build_app(module))[1]
    vars(module).update(outbox=hr.Outbox("env:PG_URL", table="shop.outbox"))
    assert "outbox" in list_parts(settings(), build_app(module))[1]


def test_an_outbox_with_a_password_in_code_is_refused() -> None:
    with pytest.raises(hr.DeclarationError, match=r"Outbox: url= has a password.*env:PG_URL") as caught:
        hr.Outbox("postgres://me:canary@db/x")
    assert "canary" not in str(caught.value)
    with pytest.raises(hr.DeclarationError, match=r"table='shop\.' is no name"):
        hr.Outbox("env:PG_URL", table="shop.")
