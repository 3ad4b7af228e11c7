"""Every command takes the same locations by flag, variable and headrace.toml, with one meaning and one default."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import click
import pytest
from click.testing import CliRunner

from headrace.cli import COMMANDS, main
from headrace.runtime.configuration.setting import Setting
from headrace.runtime.configuration.settings_table import LOCATIONS
from headrace.runtime.settings import event_source, find_lake_folder

# A command accepts locations that it does not use, and leaves them out of its help.
NOT_OFFERED: dict[tuple[str, str], str] = {}  # (command, location): why it does not take it; none so far

APP = """
import headrace as hr
payments = hr.Stream("payments", schema="id string, card string, at timestamp", id="id", key="card", time="at")
"""


def every_command() -> Iterator[tuple[str, click.Command]]:
    context = click.Context(main)
    for name in COMMANDS:
        command = main.get_command(context, name)  # type: ignore[attr-defined]  # as the group does
        assert command is not None
        yield from _inner(name, command)


def _inner(name: str, command: click.Command) -> Iterator[tuple[str, click.Command]]:
    if isinstance(command, click.Group):
        for inner in command.commands.values():
            yield from _inner(f"{name} {inner.name}", inner)
    else:
        yield name, command


@pytest.mark.parametrize("told", LOCATIONS, ids=lambda one: one.name)
def test_every_command_takes_a_location_in_the_same_words(told: Setting) -> None:
    name = told.name
    for command_name, command in every_command():
        if (command_name, name) in NOT_OFFERED:
            continue
        (option,) = [one for one in command.params if one.name == name]
        assert isinstance(option, click.Option), command_name
        assert option.opts == [told.flag], command_name
        assert (option.help, option.metavar) == (told.help, told.format.metavar), command_name
        assert option.to_info_dict()["default"] == told.default, command_name
        assert option.envvar == f"HEADRACE_{name.upper()}", command_name


def test_only_what_a_command_uses_is_in_its_help() -> None:
    said = CliRunner().invoke(main, ["hot", "--help"]).output
    assert "--http" in said
    assert "--state" in said
    assert "--store" not in said


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    for location in LOCATIONS:
        monkeypatch.delenv(location.variable, raising=False)
    Path("app.py").write_text(APP)
    return tmp_path


@pytest.mark.parametrize("how", ["flag", "variable", "file"])
@pytest.mark.parametrize("words", [["models", "ls"], ["token", "ls"]], ids=" ".join)
def test_a_location_is_told_by_flag_variable_or_file_also_to_the_commands_of_a_group(
    folder: Path, monkeypatch: pytest.MonkeyPatch, how: str, words: list[str]
) -> None:
    made = CliRunner().invoke(main, ["token", "create", "reader", "--scope", "read", "--state", "elsewhere"])
    assert made.exit_code == 0, made.output
    flags = []
    if how == "flag":
        flags = ["--state", "elsewhere"]
    elif how == "variable":
        monkeypatch.setenv("HEADRACE_STATE", "elsewhere")
    else:
        Path("headrace.toml").write_text('state = "elsewhere"\nstore = "memory"\n')
    asked = [*words, *(["app.py"] if words[0] == "models" else []), *flags, "--store", "memory"]
    said = CliRunner().invoke(main, asked)
    assert said.exit_code == 0, said.output
    assert words[0] == "models" or "reader" in said.output


def flags(**told: Any) -> dict[str, Any]:
    return {"state": ".headrace", "lake": None, "broker": None, "broker_port": 9092} | told


def test_the_lake_is_in_the_state_folder_unless_told(folder: Path) -> None:
    assert find_lake_folder(flags(state="x")) == Path("x/lake")
    assert find_lake_folder(flags(state="x", lake="l")) == Path("l")
    assert find_lake_folder(flags(state="x", lake="off")) is None
    assert find_lake_folder(flags()) == Path(".headrace/lake")


def test_events_are_read_from_the_lake_and_without_one_from_the_log(folder: Path) -> None:
    Path("x/lake").mkdir(parents=True)
    assert event_source(flags(state="x", broker="b:1")) == "x/lake"
    assert event_source(flags(state="x", lake="off")) == "kafka://127.0.0.1:9092"
    assert event_source(flags(state="x", lake="off", broker="b:1")) == "kafka://b:1"
    assert event_source(flags(state="y", broker="b:1")) == "kafka://b:1"
    assert event_source(flags(state="y")) == "y/lake"


def test_a_lake_that_is_only_where_it_was_before_is_told_of_in_one_sentence(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    Path(".headrace/lake").mkdir(parents=True)
    assert find_lake_folder(flags(state="x")) == Path("x/lake")
    assert capsys.readouterr().err == (
        "headrace: --state x is where the lake is too, and x/lake does not exist. "
        "To read the one in .headrace/lake, give --lake .headrace/lake.\n"
    )
    Path("x/lake").mkdir(parents=True)
    for given in (flags(state="x"), flags(state="x", lake=".headrace/lake"), flags(), flags(state="x", lake="off")):
        find_lake_folder(given)
    assert capsys.readouterr().err == ""


def test_the_state_folder_moves_what_a_command_reads(folder: Path) -> None:
    said = CliRunner().invoke(main, ["sql", "select 1", "--state", "x", "--http", "127.0.0.1:9"])
    assert "there is no lake at 'x/lake'" in said.output
