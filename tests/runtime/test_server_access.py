"""Remote access needs a token and TLS before anything starts; no command line contains a secret."""

import os
from dataclasses import replace
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from headrace.cli import main
from headrace.embedded_servers.ports import free_port
from headrace.runtime.part_runner import PART_RUNNERS
from headrace.runtime.parts.app_parts import part_command
from headrace.runtime.server_access import InsecureServerError, require_secure_server
from headrace.runtime.settings import BadSetting, Settings
from headrace.server.auth.access_config import AccessConfig
from headrace.server.auth.api_tokens import create_token, read_tokens, tokens_file
from headrace.server.auth.scopes import Scope
from tests.telemetry.https_server import self_signed

APP = "examples/fraud/app.py"
OTHERS = ["0.0.0.0", "[::]", "192.0.2.1"]
READ = frozenset({Scope.READ})


def headrace(*words: str) -> Result:
    return CliRunner().invoke(main, list(words))


def settings(state: Path, host: str = "127.0.0.1", access: AccessConfig | None = None) -> Settings:
    http = f"{host}:{free_port()}"
    return Settings(
        http, "b:1", 9092, "memory", None, state, None, frozenset(), "real-time", 60, access=access or AccessConfig()
    )


@pytest.fixture
def pem(tmp_path: Path) -> Path:
    return self_signed(tmp_path)


@pytest.mark.parametrize("host", OTHERS)
@pytest.mark.parametrize("command", [["up", APP], ["run", APP, "serve"], ["run", APP, "serve", "--workers", "2"]])
def test_an_address_that_others_reach_is_refused_before_anything_starts(
    tmp_path: Path, pem: Path, host: str, command: list[str]
) -> None:
    state, flags = tmp_path / "state", ["--http", f"{host}:{free_port()}", "--state", str(tmp_path / "state")]
    tls = ["--tls-cert", str(pem), "--tls-key", str(pem)]
    for more in ([], tls, ["--behind-proxy"]):
        said = headrace(*command, *flags, *more)
        assert (said.exit_code, "headrace token create NAME --scope" in said.output) == (1, True)
    create_token(state, "a", READ)
    said = headrace(*command, *flags)
    assert said.exit_code == 1
    assert "--tls-cert FILE --tls-key FILE, or --behind-proxy" in said.output
    said = headrace(*command, *flags, *tls[:2])
    assert "go together" in said.output
    assert [file.name for file in state.iterdir()] == ["tokens.json"]


@pytest.mark.parametrize("host", ["127.0.0.1", "127.8.8.8", "localhost", "[::1]"])
def test_this_machine_alone_needs_neither(tmp_path: Path, host: str) -> None:
    require_secure_server(settings(tmp_path, host))


@pytest.mark.parametrize("name", ["https://shop.example", "shop.example/", "", "*", "a b"])
def test_a_name_that_no_browser_would_say_is_refused(tmp_path: Path, name: str) -> None:
    with pytest.raises(BadSetting, match="--allow-host"):
        require_secure_server(settings(tmp_path, access=AccessConfig(allowed_hosts=(name,))))


def test_with_both_others_may_ask(tmp_path: Path, pem: Path) -> None:
    create_token(tmp_path, "a", READ)
    for access in (AccessConfig(pem, pem), AccessConfig(is_behind_proxy=True)):
        require_secure_server(settings(tmp_path, "0.0.0.0", access))


def test_behind_a_proxy_a_token_is_needed_on_any_address(tmp_path: Path) -> None:
    with pytest.raises(InsecureServerError, match="no token"):
        require_secure_server(settings(tmp_path, access=AccessConfig(is_behind_proxy=True)))


def test_a_file_of_tokens_that_others_read_is_refused_before_anything_starts(tmp_path: Path) -> None:
    create_token(tmp_path, "a", READ)
    tokens_file(tmp_path).chmod(0o644)
    for command in (["up", APP], ["run", APP, "serve"], ["token", "ls"], ["token", "create", "b", "--scope", "read"]):
        said = headrace(*command, "--state", str(tmp_path))
        assert (said.exit_code, "chmod 600" in said.output) == (1, True)


def test_a_token_is_made_listed_and_revoked_and_shown_once(tmp_path: Path) -> None:
    state = ["--state", str(tmp_path / "new" / "state")]
    made = headrace("token", "create", "grafana", "--scope", "read,predict", *state)
    assert made.exit_code == 0
    token = made.stdout.strip()
    assert token.startswith("hr_")
    assert "\n" not in token
    listed = headrace("token", "ls", *state).output
    assert "grafana" in listed
    assert "predict,read" in listed
    assert token not in listed + headrace("token", "ls", "--json", *state).output + made.stderr
    assert headrace("token", "create", "grafana", "--scope", "read", *state).exit_code == 1
    assert "none is left" in headrace("token", "revoke", "grafana", *state).output
    assert headrace("token", "revoke", "grafana", *state).exit_code == 1
    assert headrace("token", "ls", *state).output == "no tokens\n"
    assert read_tokens(tmp_path / "new" / "state") == ()


def test_a_state_folder_of_the_settings_file_is_that_of_tokens_too(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("headrace.toml").write_text('state = "here"\n')
    assert headrace("token", "create", "a", "--scope", "read").exit_code == 0
    assert [token.name for token in read_tokens(tmp_path / "here")] == ["a"]


def test_parts_are_told_where_secrets_are_and_never_what(tmp_path: Path) -> None:
    access = AccessConfig(Path("c.pem"), Path("k.pem"), True, ("shop.example", "b.example"), 7.5)
    told = replace(settings(tmp_path, access=access), store="redis://u:word@h", webhook="https://h/word")
    command = part_command(APP, "serve", told)
    assert command[-11:] == [
        *("--tls-cert", "c.pem", "--tls-key", "k.pem", "--behind-proxy"),
        *("--allow-host", "shop.example", "--allow-host", "b.example", "--rate", "7.5"),
    ]
    assert "word" not in " ".join(command) + repr(told.access)


def test_settings_of_access_come_from_the_environment_too(
    tmp_path: Path, pem: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[Settings] = []
    monkeypatch.setitem(PART_RUNNERS, "check", lambda _app, settings, _stop: seen.append(settings))
    for name, value in {"TLS_CERT": pem, "TLS_KEY": pem, "BEHIND_PROXY": 1, "ALLOW_HOST": "a b", "RATE": 9}.items():
        monkeypatch.setenv(f"HEADRACE_{name}", str(value))
    said = headrace("run", APP, "check", "--http", "[::1]:9", "--state", str(tmp_path))
    assert said.exit_code == 0, said.output
    assert seen[0].access == AccessConfig(pem, pem, True, ("a", "b"), 9.0)
    assert seen[0].url == "https://[::1]:9"
    assert os.environ["HEADRACE_RATE"] == "9"
