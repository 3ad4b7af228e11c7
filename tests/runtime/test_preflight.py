"""`plan` rejects what `up` rejects: both run the same checks."""

import json
from dataclasses import replace
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from headrace.cli import main
from headrace.declare.app import load_app
from headrace.embedded_servers.ports import HOST, free_port
from headrace.errors import HeadraceError
from headrace.runtime.preflight import CHECKS, OWNERS_CHECK, PARTITIONS_CHECK, PORT_CHECK, require_startable
from tests.runtime.test_settings import settings

STREAM = """
import headrace as hr
payments = hr.Stream("payments", schema="id string, card string, at timestamp", id="id", key="card", time="at")
"""
VIEW = """
@hr.features(payments, by="card")
class CardSpend:
    payments = hr.count(windows="1h")
"""
LABELS = """
told = hr.Stream("told", schema="id string, ok boolean, at timestamp", id="id", key="id", time="at")
labels = hr.Labels(told, value="ok", within="{within}")
def fit(frame): ...
fraud = hr.Model("fraud", on=payments, features=[CardSpend], train=fit, labels=labels{more})
"""
REFUSED = {
    "access": (STREAM, ["--http", "0.0.0.0:8080"], "there is no token"),
    "webhook": (STREAM, ["--webhook", "http://pager.example/x"], "https"),
    "alerts": (STREAM + VIEW + LABELS.format(within="1h", more=', retrain=hr.Retrain(when=["x"])'), [], "alert 'x'"),
    "lake": (STREAM + VIEW + LABELS.format(within="60d", more=""), ["--lake-retention", "30d"], "--lake-retention"),
    "savepoint": (STREAM, ["--from-savepoint", "none"], "none"),
    "allow-host": (STREAM, ["--allow-host", "a b"], "--allow-host"),
    "saved queries": (STREAM + 'all = hr.Query("all", "from silver.none")', [], "none"),
}


def plan(folder: Path, code: str, *words: str) -> Result:
    file = folder / "app.py"
    file.write_text(code)
    return CliRunner().invoke(main, ["plan", str(file), "--state", str(folder / "state"), *words])


@pytest.mark.parametrize("name", REFUSED)
def test_plan_refuses_what_up_refuses_in_the_same_words(tmp_path: Path, name: str) -> None:
    code, words, said = REFUSED[name]
    planned = plan(tmp_path, code, *words)
    assert planned.exit_code == 1, planned.output
    assert said in planned.output
    started = CliRunner().invoke(main, ["up", str(tmp_path / "app.py"), "--state", str(tmp_path / "state"), *words])
    assert started.exit_code == 1
    assert said in started.output
    assert "starting" not in started.output
    assert not (tmp_path / "state" / "broker").exists()


def test_what_plan_cannot_look_at_without_a_broker_is_said_by_name(tmp_path: Path) -> None:
    planned = plan(tmp_path, STREAM, "--json")
    assert planned.exit_code == 0, planned.output
    skipped = [one["check"] for one in json.loads(planned.output) if one.get("skipped")]
    assert skipped == [PORT_CHECK, PARTITIONS_CHECK, OWNERS_CHECK]
    assert "owners of topics\n  not checked: it needs a broker" in plan(tmp_path, STREAM).output


def test_plan_writes_nothing(tmp_path: Path) -> None:
    assert plan(tmp_path, STREAM + VIEW).exit_code == 0
    assert [file.name for file in tmp_path.iterdir()] == ["app.py"]


def test_an_app_that_nothing_speaks_against_may_start(tmp_path: Path) -> None:
    file = tmp_path / "app.py"
    file.write_text(STREAM + VIEW)
    require_startable(str(file), load_app(str(file)), replace(settings(), http=f"{HOST}:{free_port()}", state=tmp_path))
    with pytest.raises(HeadraceError, match="there is no token"):
        require_startable(str(file), load_app(str(file)), replace(settings(), http="0.0.0.0:1", state=tmp_path))


def test_every_check_has_a_name_of_its_own() -> None:
    assert len({check.name for check in CHECKS}) == len(CHECKS)
