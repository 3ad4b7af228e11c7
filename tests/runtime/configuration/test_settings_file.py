"""An unknown key in headrace.toml is an error that suggests the key probably meant."""

from pathlib import Path

import pytest
from click.testing import CliRunner

from headrace.cli import main
from headrace.runtime.configuration.settings_file import file_defaults
from headrace.runtime.settings import BadSetting


@pytest.fixture(autouse=True)
def _folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def headrace(line: str) -> tuple[int, str]:
    Path("headrace.toml").write_text(f"{line}\n")
    result = CliRunner().invoke(main, ["token", "ls"])
    return result.exit_code, result.output


def test_a_slip_of_the_pen_is_refused_with_what_was_meant() -> None:
    exit_code, output = headrace('chekpoint = "1m"')
    assert exit_code == 1
    assert output == (
        "Error: headrace.toml sets 'chekpoint', which is no setting. Did you mean 'checkpoint'? See docs/settings.md.\n"
    )
    assert headrace("broker_prt = 1")[1].count("'broker-port'") == 1


def test_what_resembles_nothing_is_refused_without_a_guess() -> None:
    assert headrace("colour = 1") == (
        1,
        "Error: headrace.toml sets 'colour', which is no setting. See docs/settings.md.\n",
    )


@pytest.mark.parametrize("line", ["limit = 7", 'of-version = "v1"', "in_json = false", 'scope = "read"'])
def test_an_option_of_a_single_command_may_be_set_there_too(line: str) -> None:
    assert headrace(line) == (0, "no tokens\n")


def test_a_file_of_settings_alone_asks_no_command_for_its_options() -> None:
    def list_option_names() -> frozenset[str]:
        raise AssertionError

    Path("headrace.toml").write_text('for = "2m"\nbroker_port = 1\nhttp = "127.0.0.1:1"\n')
    values = {"for_": "2m", "broker_port": 1, "http": "127.0.0.1:1"}
    assert file_defaults(["up", "run"], list_option_names) == {"up": values, "run": values}


def test_a_file_that_is_no_toml_is_refused() -> None:
    Path("headrace.toml").write_text("http: 127.0.0.1:8080\n")
    with pytest.raises(BadSetting, match='Write lines such as http = "127'):
        file_defaults(["up"])
