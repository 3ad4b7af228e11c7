"""No output contains a secret: each secret is a unique word, searched for in every kind of output."""

import logging
import os
import signal
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import pytest
from click.testing import CliRunner

from headrace.cli import main
from headrace.declare.app import load_app
from headrace.embedded_servers.ports import HOST, free_port, is_listening
from headrace.online_store.factory import create_store_reader
from headrace.online_store.registry import UnknownStoreError
from headrace.runtime.doctor import _check_store
from headrace.server.auth.access_config import AccessConfig
from headrace.server.auth.api_tokens import create_token, tokens_file
from headrace.server.auth.scopes import Scope
from tests.running import descendants
from tests.server.metrics.test_workers import APP
from tests.server.secured_server import bearer, guard_of
from tests.server.server_thread import Asking, board_of, serving
from tests.telemetry.https_server import self_signed
from tests.waiting import patiently, wait_until

PASSWORD, HOOK = "canary-of-redis", "canary-of-the-webhook"


@pytest.fixture
def app(tmp_path: Path) -> Path:
    file = tmp_path / "app.py"
    file.write_text(APP.format(stream="canary", view="Canary"))
    return file


@pytest.fixture
def told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, str]:
    """The environment of a command."""
    told = {
        "HEADRACE_STORE": f"redis://user:{PASSWORD}@{HOST}:{free_port()}/0",
        "HEADRACE_WEBHOOK": f"https://{HOST}/{HOOK}",
        "HEADRACE_STATE": str(tmp_path / "state"),
        "HEADRACE_BROKER": f"{HOST}:{free_port()}",
    }
    for name, value in told.items():
        monkeypatch.setenv(name, value)
    return told


@pytest.fixture
def token(tmp_path: Path) -> str:
    return create_token(tmp_path / "state", "canary", frozenset({Scope.ADMIN}))


def test_commands_that_look_say_no_secret(app: Path, told: dict[str, str], token: str) -> None:
    for words in (["doctor"], ["doctor", "--json"], ["plan", str(app)], ["plan", str(app), "--json"], ["token", "ls"]):
        said = CliRunner().invoke(main, words).output
        assert said
        for secret in (PASSWORD, HOOK, token[3:]):
            assert secret not in said


@pytest.mark.parametrize(
    "store",
    [
        f"redis://u:{PASSWORD}/x@h:1",
        f"postgres://u:{PASSWORD}@h",
        f"redis//u:{PASSWORD}@h",
        f"redis://[{PASSWORD}",
        f"http://{HOST}:1?password={PASSWORD}",
    ],
)
def test_a_store_that_is_written_wrong_is_not_repeated(app: Path, store: str) -> None:
    found = _check_store(store)
    assert PASSWORD not in found.found + found.mend
    with pytest.raises(UnknownStoreError) as unknown:
        create_store_reader(load_app(str(app)), f"{HOST}:1", store)
    assert PASSWORD not in str(unknown.value)
    assert unknown.value.__suppress_context__ or unknown.value.__context__ is None


def said_of(ask: Asking, headers: Mapping[str, str]) -> str:
    """The responses of several routes, with their headers."""
    said = []
    for path in ("/", "/metrics", "/history", "/dashboard/app.json", "/nowhere", "/version"):
        answer = ask("GET", path, headers=headers)
        said.append(str(answer.headers) + answer.body.decode())
    for path, body in (("/features/Canary", {"keys": ["c1"]}), ("/features/Canary", b"{"), ("/login", b"token=x")):
        answer = ask("POST", path, body, headers)
        said.append(str(answer.headers) + answer.body.decode())
    return "\n".join(said)


def everybody(ask: Asking, token: str) -> list[str]:
    """The responses to authorized and to unauthorized clients."""
    return [said_of(ask, headers) for headers in ({}, bearer(token), bearer(token + "x"), {"Cookie": token})]


def require_silence(heard: list[str], state: Path, secrets: list[str]) -> None:
    secrets.append((state / "own.secret").read_bytes().hex())
    for said in [*heard, tokens_file(state).read_text()]:
        for secret in secrets:
            assert secret not in said
    assert any("Canary" in said for said in heard)
    assert any("does not answer" in said for said in heard)


def test_a_server_tells_no_secret_to_anybody_and_logs_none(
    app: Path, told: dict[str, str], token: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    declared, state = load_app(str(app)), tmp_path / "state"
    online = create_store_reader(declared, told["HEADRACE_BROKER"], told["HEADRACE_STORE"])
    with caplog.at_level(logging.DEBUG), serving(declared, online, board_of(declared), guard=guard_of(state)) as ask:
        heard = everybody(ask, token)
    require_silence([*heard, caplog.text], state, [token, token[3:], PASSWORD])


@contextmanager
def running(app: Path, *flags: str) -> Iterator[tuple[int, subprocess.Popen[str]]]:
    port = free_port()
    command = [sys.executable, "-m", "headrace", "run", str(app), "serve", "--http", f"{HOST}:{port}", *flags]
    process = subprocess.Popen(command, env=os.environ, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    try:
        wait_until(lambda: is_listening(HOST, port), 60, "the server to listen")
        yield port, process
    finally:
        process.send_signal(signal.SIGTERM)
        process.wait(patiently(30))


@pytest.mark.faults
def test_workers_have_no_secret_on_their_command_line_nor_in_their_logs(
    app: Path, told: dict[str, str], token: str, tmp_path: Path
) -> None:
    state = tmp_path / "state"
    # The store on the command line that the user wrote: those of the workers do not repeat it.
    with running(app, "--workers", "2", "--store", told["HEADRACE_STORE"]) as (port, process):
        ask = Asking(port)
        heard = [*everybody(ask, token), ask("GET", "/v2/health/ready", headers=bearer(token)).body.decode()]
        workers = [Path(f"/proc/{pid}/cmdline").read_text() for pid in descendants(process.pid)]
        assert sum("--worker\0" in words for words in workers) == 2
    said = process.stdout.read() if process.stdout else ""
    logs = [file.read_text(errors="replace") for file in (state / "logs").iterdir()]
    require_silence([*heard, *workers, said, *logs], state, [token, token[3:], PASSWORD, HOOK])


@pytest.mark.faults
def test_a_server_of_https_says_nothing_of_its_key(app: Path, told: dict[str, str], token: str, tmp_path: Path) -> None:
    pem = self_signed(tmp_path)
    key = pem.read_text().partition("-----BEGIN PRIVATE KEY-----")[2].split()
    with running(app, "--tls-cert", str(pem), "--tls-key", str(pem)) as (_, process):
        command = Path(f"/proc/{process.pid}/cmdline").read_text()
    said = process.stdout.read() if process.stdout else ""
    assert not any(line in said + command + repr(AccessConfig(pem, pem)) for line in key[:2])
