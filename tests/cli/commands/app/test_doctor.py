import json
import os
import socket
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from headrace.cli import main
from headrace.embedded_servers.ports import free_port


@pytest.fixture
def headrace(monkeypatch, tmp_path):
    """Run the command in an empty folder, by default on free ports."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HEADRACE_BROKER_PORT", str(free_port()))
    monkeypatch.setenv("HEADRACE_HTTP", f"127.0.0.1:{free_port()}")

    def run(*words: str) -> Result:
        return CliRunner().invoke(main, ["doctor", *words])

    return run


def checks(result: Result) -> dict[str, dict[str, object]]:
    return {check["check"]: check for check in json.loads(result.stdout)["checks"]}


def test_a_sound_machine_is_said_line_by_line_with_exit_code_0(headrace, broker):
    result = headrace()
    assert result.exit_code == 0, result.output
    assert all(line.startswith("ok") for line in result.output.splitlines())


def test_json_says_the_same(headrace, broker, redis_url):
    result = headrace("--json", "--broker", broker.address, "--store", redis_url)
    assert result.exit_code == 0
    assert json.loads(result.stdout)["ok"] is True
    assert checks(result)["broker"]["found"] == f"{broker.address} accepts connections"
    assert "answers" in checks(result)["store"]["found"]


def test_the_embedded_brokers_own_port_is_no_fault_while_it_runs(headrace, broker):
    state = str(broker.folder.parent)
    result = headrace("--json", "--state", state, "--broker-port", str(broker.port))
    assert checks(result)["broker"]["found"] == f"the embedded one runs on port {broker.port} (process {broker.pid})"


def test_a_taken_port_is_named_with_its_holder_and_the_remedy(headrace):
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        result = headrace("--json", "--http", f"127.0.0.1:{port}", "--broker-port", str(port))
    assert result.exit_code == 1
    for name, setting in (("http", "--http"), ("broker", "--broker-port")):
        assert f"(process {os.getpid()})" in checks(result)[name]["found"]
        assert setting in checks(result)[name]["mend"]


def test_servers_that_do_not_answer_are_wrong_and_passwords_stay_hidden(headrace):
    result = headrace("--broker", "127.0.0.1:9", "--store", "redis://me:secret@127.0.0.1:9/0")
    assert result.exit_code == 1
    assert "127.0.0.1:9 does not answer" in result.output
    assert "secret" not in result.output


def test_missing_jars_are_named_with_the_command_that_fetches_them(headrace, monkeypatch, tmp_path):
    monkeypatch.setenv("HEADRACE_CACHE", str(tmp_path / "empty"))
    result = headrace()
    assert result.exit_code == 1
    assert "-m headrace.embedded_servers.jars" in result.output


def test_a_missing_java_is_wrong(headrace, monkeypatch, tmp_path):
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setattr("headrace.embedded_servers.java.JVM_FOLDER", tmp_path)
    assert checks(headrace("--json"))["java"]["ok"] is False


def test_an_address_that_is_none_is_one_sentence_and_exit_code_1(headrace):
    result = headrace("--http", "8080")
    assert result.exit_code == 1
    assert result.output == "Error: --http '8080' is not HOST:PORT. Write it as 127.0.0.1:8080.\n"


def test_a_wrong_flag_is_a_usage_error_with_exit_code_2(headrace):
    assert headrace("--nope").exit_code == 2


def test_the_installed_command_runs():
    program = Path(sys.executable).parent / "headrace"
    ran = subprocess.run([program, "--version"], capture_output=True, text=True, check=True)
    assert ran.stdout.startswith("headrace, version ")
