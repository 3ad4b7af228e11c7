"""`headrace NOUN VERB APP`, and the older order of words."""

from pathlib import Path
from typing import Any

import click
import pytest
from click.testing import CliRunner

from headrace.cli import main
from headrace.cli.command_grammar import VerbGroup, verb_command
from tests.spark.checkpoints.test_savepoints import batch

APP = """
import headrace as hr
payments = hr.Stream("payments", schema="id string, card string, at timestamp", id="id", key="card", time="at")
"""


@pytest.fixture
def app(tmp_path: Path) -> str:
    file = tmp_path / "app.py"
    file.write_text(APP)
    return str(file)


def run(*words: str) -> str:
    result = CliRunner().invoke(main, words)
    assert result.exit_code == 0, result.output
    return result.output


@pytest.mark.parametrize(
    ("noun", "verb"),
    [("export", "metrics"), ("export", "alerts"), ("models", "ls"), ("changes", "ls"), ("savepoint", "ls")],
)
def test_verb_and_app_are_taken_in_either_order(app: str, noun: str, verb: str) -> None:
    assert run(noun, verb, app) == run(noun, app, verb)


def test_the_state_of_an_app_is_listed_with_and_without_a_verb(app: str, tmp_path: Path) -> None:
    at = ("--state", str(tmp_path))
    assert run("state", "ls", app, *at) == run("state", app, *at) == run("state", *at, app)


def test_a_savepoint_is_created_with_and_without_a_verb(app: str, tmp_path: Path) -> None:
    at = ("--state", str(tmp_path))
    batch(tmp_path, "payments/gate", 0)
    run("savepoint", "create", app, "one", *at)
    run("savepoint", app, "two", *at)
    assert [line.split()[0] for line in run("savepoint", "ls", app, *at).splitlines()] == ["one", "two"]


def parsed(*words: str, implied: str | None = None) -> dict[str, Any]:
    """The arguments of a command with the verbs ls and show, as its function gets them."""

    @click.command("dead", cls=verb_command("ls", "show", implied=implied))
    @click.argument("action")
    @click.argument("app", required=False)
    @click.argument("stream", required=False)
    @click.option("--limit", default=1)
    def command(**words: Any) -> None: ...

    with command.make_context("dead", [*words]) as context:
        return context.params


def test_options_may_stand_anywhere() -> None:
    wanted = {"action": "show", "app": "app.py", "stream": "payments", "limit": 3}
    assert parsed("show", "app.py", "payments", "--limit", "3") == wanted
    assert parsed("--limit", "3", "app.py", "show", "payments") == wanted
    assert parsed("app.py", "--limit", "3", "show", "payments") == wanted


def test_an_app_may_be_named_as_a_verb_is() -> None:
    assert parsed("show", "ls", "payments")["app"] == "ls"


@pytest.mark.parametrize("words", [["shwo", "app.py"], ["ls"], ["app.py", "list", "payments"]])
def test_what_is_no_verb_is_refused_with_those_there_are(words: list[str]) -> None:
    with pytest.raises(click.UsageError, match=r"Write headrace dead ls\|show APP\."):
        parsed(*words)


def test_a_mistyped_verb_is_not_taken_for_an_app() -> None:
    with pytest.raises(click.UsageError, match="'shwo' is not one of ls, show"):
        parsed("shwo", "app.py", "payments", implied="ls")


@pytest.mark.parametrize("noun", ["dead", "parked", "alerts", "export", "savepoint", "state"])
def test_help_writes_the_verb_before_the_app(noun: str) -> None:
    usage = run(noun, "--help").splitlines()[0]
    assert usage.index("ls") < usage.index("APP") if "ls" in usage else usage.index("|") < usage.index("APP")


def test_groups_of_verbs_are_groups_in_either_order() -> None:
    for noun in ("models", "changes"):
        assert isinstance(main.get_command(click.Context(main), noun), VerbGroup)
    result = CliRunner().invoke(main, ["changes", "app.py", "list"])
    assert result.exit_code == 2
