"""The output of `headrace plan` for sinks, and the errors for a missing sink; neither contains an address."""

import json
from pathlib import Path

import pytest
from click.testing import CliRunner

from headrace import plugins
from headrace.cli import main
from headrace.connectors.sinks import sink_part
from headrace.connectors.sinks.writer import SinkConfig
from headrace.declare.app import load_app

APP = """
import headrace as hr

taps = hr.Stream("taps", schema="id string, card string, at timestamp", id="id", key="card", time="at")
out = hr.Sink("taps out", of=taps, to=hr.Webhook("https://hooks.example/s3cret"), columns=["id", "at"])
kept = hr.Sink("taps kept", of=taps, to=hr.Postgres("env:PG_URL", table="taps"), delivery="exactly_once")
"""


@pytest.fixture
def app(tmp_path: Path) -> str:
    file = tmp_path / "app.py"
    file.write_text(APP)
    return str(file)


def test_the_plan_says_what_each_sink_brings_where_and_how_often(app: str, tmp_path: Path) -> None:
    said = CliRunner().invoke(main, ["plan", app, "--state", str(tmp_path)])
    assert said.exit_code == 0, said.output
    assert "taps out (sink)\n  taps.clean to webhook: id, at\n  at_least_once: rows first" in said.output
    assert "  taps.clean to postgres by id: id, card, at\n  exactly_once: rows and offsets in one" in said.output
    in_json = CliRunner().invoke(main, ["plan", app, "--state", str(tmp_path), "--json"]).output
    assert {one["sink"] for one in json.loads(in_json) if "sink" in one} == {"taps out", "taps kept"}
    assert "s3cret" not in said.output + in_json


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["show"], "SINK is missing. Write headrace parked show {app} SINK, one of 'taps out', 'taps kept'."),
        (["show", "else"], "there is no sink 'else'. It declares 'taps out', 'taps kept'."),
    ],
)
def test_a_sink_that_is_not_named_or_not_there_is_told_of(app: str, words: list[str], said: str) -> None:
    ran = CliRunner().invoke(main, ["parked", app, *words])
    assert ran.exit_code == 1
    assert said.format(app=app) in ran.output


def test_a_driver_that_is_missing_is_named_with_the_line_and_how_to_install_it(
    app: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def missing(name: str) -> None:
        raise ModuleNotFoundError(f"No module named {name}", name="psycopg")

    monkeypatch.setattr(plugins, "import_module", missing)
    said = r"app.py:6: .* needs psycopg\. .*pip install 'headrace\[postgres\]'"
    with pytest.raises(plugins.DriverMissing, match=said):
        sink_part.create_sink_writer(load_app(app).sink("taps kept"), SinkConfig("nowhere"))
