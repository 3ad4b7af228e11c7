"""An unexpected error is one sentence; its traceback is in a file, or on the terminal in debug mode."""

from pathlib import Path

import click
import pytest
from click.testing import CliRunner, Result

import headrace.cli.commands.models.train
from headrace.cli import main
from headrace.errors import HeadraceError

APP = """
import headrace as hr
taps = hr.Stream("taps", schema="id string, card string, at timestamp", id="id", key="card", time="at")
"""


@pytest.fixture
def app(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("HEADRACE_DEBUG", raising=False)
    file = tmp_path / "shop.py"
    file.write_text(APP)
    return file


def run(*words: str) -> Result:
    return CliRunner().invoke(main, words)


def test_an_error_of_the_apps_own_module_is_one_sentence_with_its_line(app: Path) -> None:
    app.write_text(APP + "\nlimit = taps.schema / 0\n")
    ran = run("plan", str(app), "--state", "kept")
    assert ran.exit_code == 1
    (sentence,) = ran.output.strip().splitlines()
    assert sentence.startswith("Error: TypeError: unsupported operand type(s) for /: 'Schema' and 'int'")
    assert f"({app}:5). The trace is in kept/logs/command-plan.log" in sentence
    trace = Path("kept/logs/command-plan.log").read_text()
    assert "Traceback (most recent call last)" in trace
    assert "limit = taps.schema / 0" in trace


def test_whoever_debugs_sees_the_trace(app: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    app.write_text("1 / 0")
    monkeypatch.setenv("HEADRACE_DEBUG", "1")
    assert isinstance(run("plan", str(app)).exception, ZeroDivisionError)


def test_a_folder_that_cannot_be_written_changes_neither_sentence_nor_exit_code(app: Path) -> None:
    app.write_text("1 / 0")
    Path("file").write_text("no folder")
    ran = run("plan", str(app), "--state", "file/below")
    assert ran.exit_code == 1
    assert "Error: ZeroDivisionError: division by zero" in ran.output
    assert "command-plan.log" in ran.output


def test_a_part_leaves_the_trace_in_its_own_log(app: Path) -> None:
    app.write_text("1 / 0")
    ran = run("run", str(app), "check")
    assert ran.exit_code == 1
    assert "Traceback (most recent call last)" in ran.stderr
    assert ran.stderr.strip().splitlines()[-1] == f"Error: ZeroDivisionError: division by zero ({app}:1)."


@pytest.mark.parametrize("error", [HeadraceError("Mend it."), click.UsageError("Mend it.")])
def test_an_error_that_says_what_to_do_needs_no_trace(
    app: Path, error: Exception, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(_: str) -> None:
        raise error

    monkeypatch.setattr(headrace.cli.commands.models.train, "load_app", fail)
    ran = run("train", str(app), "V", "--state", "kept")
    assert "Error: Mend it." in ran.output
    assert "trace" not in ran.output
    assert not Path("kept").exists()
