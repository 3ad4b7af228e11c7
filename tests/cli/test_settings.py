"""Settings are read from flags, variables and headrace.toml; what cannot be meant is refused in one sentence."""

from pathlib import Path

import pytest
from click.testing import CliRunner

from headrace.cli import main
from headrace.cli.settings import BadSetting, Settings, file_defaults
from headrace.cli.up import command_of

APP = "examples/fraud/app.py"


def settings(store: str = "memory") -> Settings:
    return Settings("127.0.0.1:1", "b:1", 9092, store, None, Path("s"), None, frozenset({"payments"}), "real-time", 60)


def test_a_part_is_not_told_the_stores_address_or_a_rebuild_on_its_command_line() -> None:
    command = command_of(APP, "stream", settings("redis://user:secret@cache:6379"))
    assert not any("secret" in word or "rebuild" in word for word in command)
    assert command[command.index("--checkpoint") + 1] == "60s"


def test_a_rebuild_in_the_file_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("headrace.toml").write_text('rebuild = ["payments"]\n')
    with pytest.raises(BadSetting, match="Give it once: --rebuild STREAM"):
        file_defaults()


@pytest.mark.parametrize("written", ["1s", "0s", "soon"])
def test_a_checkpoint_that_spark_cannot_keep_is_refused(written: str) -> None:
    said = CliRunner().invoke(main, ["up", APP, "--checkpoint", written])
    assert said.exit_code != 0
    assert "--checkpoint" in said.output
