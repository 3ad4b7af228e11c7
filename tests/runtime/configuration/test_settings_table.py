"""Each setting's flag, variable, headrace.toml key and part processes agree on it."""

import os
from collections.abc import Iterator, Mapping
from dataclasses import MISSING, fields
from operator import attrgetter
from pathlib import Path
from typing import Any

import click
import pytest

from headrace.cli import COMMANDS, main
from headrace.runtime.configuration.part_arguments import ONE_TIME_VARIABLES, SECRET_FLAGS, secret_variables
from headrace.runtime.configuration.setting import EVERY_COMMAND, Handover, Setting
from headrace.runtime.configuration.settings_file import file_defaults
from headrace.runtime.configuration.settings_parser import parse_settings
from headrace.runtime.configuration.settings_table import SETTINGS
from headrace.runtime.parts.app_parts import part_command
from headrace.runtime.parts.server_workers import remove_secret_flags
from headrace.runtime.settings import BadSetting, Settings

APP = "app.py"
ARGUMENTS = {"run": [APP, "serve"], "train": [APP, "fraud"]}
NEEDED_FLAGS = {"since": ["--rebuild", "payments"]}
# The other one is read and exported at once, and no function of a command sees it: below.
TOLD = [setting for setting in SETTINGS if setting.name != "broker_security"]
OF_PARTS = [setting for setting in TOLD if setting.is_taken_by("up") and setting.settings_field]
HANDED = [setting for setting in SETTINGS if setting.handover in {Handover.FLAG, Handover.SECRET}]


def by_name(rows: list[Setting]) -> pytest.MarkDecorator:
    return pytest.mark.parametrize("row", rows, ids=lambda row: row.name)


@pytest.fixture(autouse=True)
def _nothing_is_set(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for variable in ("OTEL_EXPORTER_OTLP_ENDPOINT", *(row.variable for row in SETTINGS)):
        monkeypatch.delenv(variable, raising=False)


def flags_of(command_name: str, words: list[str], defaults: Mapping[str, Any] | None = None) -> dict[str, Any]:
    """What a command's function would be called with."""
    command = main.get_command(click.Context(main), command_name)  # type: ignore[attr-defined]  # as the group does
    arguments = [*ARGUMENTS.get(command_name, [APP]), *words]
    return dict(command.make_context(command_name, arguments, default_map=dict(defaults or {})).params)


def taker(row: Setting) -> str:
    """A command that takes a setting."""
    return "up" if row.is_taken_by("up") else row.commands[0]


def words_of(row: Setting) -> list[str]:
    return [*NEEDED_FLAGS.get(row.name, ()), row.flag, *([] if row.format.is_switch else [row.format.example])]


def value_in(settings: Settings, row: Setting) -> Any:
    return attrgetter(row.settings_field)(settings)


def every_command() -> Iterator[tuple[str, click.Command]]:
    for name in COMMANDS:
        command = main.get_command(click.Context(main), name)  # type: ignore[attr-defined]  # as the group does
        assert command is not None
        inner = command.commands.values() if isinstance(command, click.Group) else [command]
        yield from ((name, one) for one in inner)


@by_name(list(SETTINGS))
def test_a_setting_says_what_it_is(row: Setting) -> None:
    assert row.is_hidden or row.help.endswith(".")
    assert row.format.is_switch or row.format.example


def test_no_two_settings_are_called_the_same() -> None:
    for names in ([row.name for row in SETTINGS], [row.key for row in SETTINGS], [row.variable for row in SETTINGS]):
        assert len(set(names)) == len(names)


@by_name(list(SETTINGS))
def test_the_table_tells_which_commands_take_a_setting(row: Setting) -> None:
    takers = {
        name
        for name, command in every_command()
        for option in command.params
        if (option.name, option.opts) == (row.name, [row.flag])
        and isinstance(option, click.Option)
        and option.metavar == row.format.metavar  # `trace` has its own --since
    }
    assert takers == set(COMMANDS if row.commands == EVERY_COMMAND else row.commands)


@by_name(TOLD)
def test_a_flag_and_its_variable_mean_the_same(row: Setting, monkeypatch: pytest.MonkeyPatch) -> None:
    flags = flags_of(taker(row), words_of(row))
    assert flags[row.name] != flags_of(taker(row), [])[row.name]
    monkeypatch.setenv(row.variable, row.format.example or "1")
    assert flags_of(taker(row), NEEDED_FLAGS.get(row.name, [])) == flags


@by_name([row for row in TOLD if not row.is_one_time])
@pytest.mark.parametrize("separator", ["-", "_"])
def test_a_flag_and_its_line_in_the_file_mean_the_same(row: Setting, separator: str) -> None:
    value = "true" if row.format.is_switch else f"'{row.format.example}'"
    key = row.key.replace("-", separator)
    Path("headrace.toml").write_text(f"{key} = {f'[{value}]' if row.is_repeatable else value}\n")
    defaults = file_defaults([taker(row)])[taker(row)]
    assert flags_of(taker(row), [], defaults) == flags_of(taker(row), words_of(row))


@by_name([row for row in SETTINGS if row.is_one_time])
@pytest.mark.parametrize("separator", ["-", "_"])
def test_what_is_done_once_is_refused_in_the_file(row: Setting, separator: str) -> None:
    Path("headrace.toml").write_text(f"{row.key.replace('-', separator)} = 'x'\n")
    with pytest.raises(BadSetting, match=f"sets {row.key}, .* Give it once: {row.usage}"):
        file_defaults(["up"])
    assert row.variable in ONE_TIME_VARIABLES


@pytest.mark.parametrize("how", ["flag", "variable", "file"])
def test_the_security_of_a_broker_reaches_every_process_by_the_environment(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, how: str
) -> None:
    file = tmp_path / "security.toml"
    file.write_text('["kafka.example:9093"]\nmechanism = "PLAIN"\nusername = "shop"\npassword = "env:WORD"\n')
    file.chmod(0o600)
    monkeypatch.setenv("HEADRACE_BROKER_SECURITY", "security.toml" if how == "variable" else "")
    monkeypatch.setenv("WORD", "word")
    Path("headrace.toml").write_text('broker-security = "security.toml"\n')
    defaults = file_defaults(["hot"])["hot"] if how == "file" else {}
    flags_of("hot", ["--broker-security", "security.toml"] if how == "flag" else [], defaults)
    assert os.environ["HEADRACE_BROKER_SECURITY"] == str(file)


@by_name(OF_PARTS)
def test_the_settings_have_what_a_flag_says(row: Setting) -> None:
    settings = parse_settings(flags_of("up", words_of(row)))
    assert value_in(settings, row) != value_in(parse_settings(flags_of("up", [])), row)


@by_name(HANDED)
def test_a_part_has_the_settings_that_up_has(row: Setting, monkeypatch: pytest.MonkeyPatch) -> None:
    for words in ([], words_of(row)):
        settings = parse_settings(flags_of("up", words))
        for variable, value in secret_variables(settings).items():
            monkeypatch.setenv(variable, value)
        part_settings = parse_settings(flags_of("run", part_command(APP, "serve", settings)[6:]))
        assert part_settings.broker_address == settings.broker_address
        assert row.name == "broker" or value_in(part_settings, row) == value_in(settings, row)


@by_name([row for row in HANDED if row.default is not None])
def test_a_part_has_it_whatever_the_file_says(row: Setting, monkeypatch: pytest.MonkeyPatch) -> None:
    """A flag of `up` overrides headrace.toml, also if its value is the default."""
    settings = parse_settings(flags_of("up", [row.flag, str(row.default)]))
    for variable, value in secret_variables(settings).items():
        monkeypatch.setenv(variable, value)
    words = part_command(APP, "serve", settings)[6:]
    part_settings = parse_settings(flags_of("run", words, {row.name: row.format.example}))
    assert value_in(part_settings, row) == value_in(settings, row)


@by_name([row for row in SETTINGS if row.is_secret])
def test_a_secret_is_on_no_command_line_of_a_process_that_is_started(row: Setting) -> None:
    settings, example = parse_settings(flags_of("up", words_of(row))), row.format.example
    assert not any(example in word or word == row.flag for word in part_command(APP, "serve", settings))
    assert secret_variables(settings)[row.variable] == example
    assert row.flag in SECRET_FLAGS
    assert remove_secret_flags(["serve", row.flag, example, f"{row.flag}={example}"]) == ["serve"]


def test_no_part_does_again_what_is_done_once() -> None:
    once = [word for row in SETTINGS if row.is_one_time for word in words_of(row)]
    command = part_command(APP, "serve", parse_settings(flags_of("up", once)))
    assert not {row.flag for row in SETTINGS if row.handover in {Handover.ONCE, Handover.NONE}} & {*command}


def test_the_defaults_of_settings_are_those_of_the_table() -> None:
    settings = parse_settings(flags_of("up", []))
    defaults = {one.name: one.default for one in fields(Settings) if one.default is not MISSING}
    assert defaults.pop("lake") is None  # without one; a command has STATE/lake
    assert defaults == {name: getattr(settings, name) for name in defaults}


def test_every_part_of_the_settings_is_in_the_table() -> None:
    assert {row.settings_field.partition(".")[0] for row in SETTINGS if row.settings_field} == {
        one.name for one in fields(Settings)
    }


def test_a_number_and_a_retention_reach_parts_as_they_were_given() -> None:
    settings = parse_settings(flags_of("up", ["--rate", "1234567.5", "--lake-retention", "36h"]))
    command = part_command(APP, "serve", settings)
    assert command[command.index("--rate") + 1] == "1234567.5"
    assert command[command.index("--lake-retention") + 1] == "36h"
