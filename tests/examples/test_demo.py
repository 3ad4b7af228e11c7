import re
import signal
import subprocess
import sys
from pathlib import Path

import pytest

DEMO = Path(__file__).parents[2] / "examples" / "fraud" / "demo.py"
TRAINED = re.compile(r"fraud version 1 \(the champion\): auc (0\.\d+)")
DECISION = re.compile(r"^decision: (\w+) +([\d,]+) *$", re.MULTILINE)
LABELS = re.compile(r"^labels +([\d,]+) +outcomes: ", re.MULTILINE)
ROW = re.compile(r"^(\S.*?) {2,}([\d,]+) +([\d,]+) +(=|differs) *$", re.MULTILINE)


@pytest.mark.timeout(600)
def test_stopped_by_ctrl_c_the_demo_counts_and_decides_what_it_sent_in_plain_lines(tmp_path):
    options = ["--for", "10m", "--rate", "50", "--http-port", "0", "--broker-port", "0", "--state", str(tmp_path)]
    command = [sys.executable, str(DEMO), *options]
    said, stopped = "", False
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True) as running:
        assert running.stdout is not None
        for line in running.stdout:
            said += line
            # After a look or two, and once: a second Ctrl-C is for those who cannot wait.
            if line.startswith("00:") and line[3:5] >= "05" and not stopped:
                running.send_signal(signal.SIGINT)
                stopped = True
    assert running.returncode == 0, said
    assert "\x1b" not in said
    rows = {name: (counted, sent) for name, counted, sent, _ in ROW.findall(said)}
    assert {"in", "clean", "late", "duplicates dropped", "cards tested, then charged", "decided"} <= rows.keys()
    assert all(counted == sent for counted, sent in rows.values())
    assert number(rows["in"][0]) > 100
    trained = TRAINED.search(said)
    assert trained is not None, said
    assert 0.85 < float(trained[1]) < 1
    decisions = {name: number(times) for name, times in DECISION.findall(said)}
    # Which there are beside "pass" depends on the machine: a score is due before its tiles where that is busy.
    assert {"pass"} <= decisions.keys() <= {"pass", "review", "block"}
    assert sum(decisions.values()) == number(rows["decided"][0]) > 100
    assert decisions["pass"] > 100
    assert "of 50ms, degraded" in said
    labels = LABELS.search(said)
    assert labels is not None, said
    assert number(labels[1]) > 0
    assert re.search(r"^by labels \(by scores\) +coverage ", said, re.MULTILINE), said


def number(text: str) -> int:
    return int(text.replace(",", ""))
