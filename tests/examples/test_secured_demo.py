"""The whole demo on a broker with SASL_SSL and SCRAM; no output contains its password."""

import os
import re
import signal
import subprocess
import sys
import urllib.request
from pathlib import Path

import pytest
from click.testing import CliRunner

from headrace.cli import main
from headrace.kafka.client.security import SECURITY_FILE_VARIABLE
from tests.examples.test_demo import DECISION, DEMO, ROW, number
from tests.kafka.secured_broker import ADMIN_PASSWORD, CANARY, Guarded
from tests.running import descendants
from tests.waiting import SOCKET_S

READY = re.compile(r"^Ready: (http://\S+)")
PAGES = ("/", "/metrics", "/history", "/dashboard/app.json", "/v2", "/version", "/hot")
SECRETS = (CANARY.split()[0], ADMIN_PASSWORD)


@pytest.mark.faults
@pytest.mark.timeout(900)
def test_the_demo_runs_on_a_broker_that_asks_who_comes_and_tells_nobody_its_password(
    guarded: Guarded, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(SECURITY_FILE_VARIABLE, str(guarded.by_password("SCRAM-SHA-512")))
    flags = ["--for", "10m", "--rate", "50", "--http-port", "0", "--broker", guarded.address, "--state", str(tmp_path)]
    said, heard, url = "", dict[str, str](), ""
    with subprocess.Popen(
        [sys.executable, str(DEMO), *flags], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    ) as running:
        assert running.stdout is not None
        for line in running.stdout:
            said += line
            if ready := READY.match(line):
                url = ready[1]
            # Once everybody is at work: some start only after the first answer.
            if line.startswith("00:") and line[3:5] >= "20" and not heard:
                heard = everything(url, running.pid)
                running.send_signal(signal.SIGINT)
    assert running.returncode == 0, said
    rows = {name: (counted, sent) for name, counted, sent, _ in ROW.findall(said)}
    assert {"in", "clean", "late", "duplicates dropped", "decided"} <= rows.keys()
    assert all(counted == sent for counted, sent in rows.values()), said
    assert sum(number(times) for _, times in DECISION.findall(said)) == number(rows["decided"][0]) > 1000
    for words in (["plan", str(DEMO.with_name("app.py")), "--state", str(tmp_path)], ["doctor", "--json"]):
        heard[" ".join(words)] = CliRunner().invoke(main, words, env={"HEADRACE_BROKER": guarded.address}).output
    heard |= {str(file): file.read_bytes().decode("latin-1") for file in tmp_path.rglob("*") if file.is_file()}
    assert len(heard) > 100
    assert any("CardSpend" in text for text in heard.values())
    told = {where for where, text in {**heard, "the demo": said}.items() for secret in SECRETS if secret in text}
    assert not told


def everything(url: str, pid: int) -> dict[str, str]:
    """Every page, and every command line, of a running demo."""
    pages = {}
    for path in PAGES:
        with urllib.request.urlopen(url + path, timeout=SOCKET_S) as answer:
            pages[path] = str(answer.headers) + answer.read().decode()
    commands = {f"process {one}": Path(f"/proc/{one}/cmdline").read_text() for one in descendants(pid)}
    assert any("SparkSubmit" in command for command in commands.values())
    assert SECURITY_FILE_VARIABLE in os.environ
    return pages | commands
