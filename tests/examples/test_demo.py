import re
import signal
import subprocess
import sys
from pathlib import Path

import pytest

DEMO = Path(__file__).parents[2] / "examples" / "fraud" / "demo.py"
ROW = re.compile(r"^(\S.*?) {2,}([\d,]+) +([\d,]+) +(=|differs) *$", re.MULTILINE)


@pytest.mark.timeout(600)
def test_stopped_by_ctrl_c_the_demo_counts_what_it_sent_in_plain_lines(tmp_path):
    options = ["--for", "10m", "--rate", "50", "--http-port", "0", "--broker-port", "0", "--state", str(tmp_path)]
    command = [sys.executable, str(DEMO), *options]
    said, stopped = "", False
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True) as running:
        assert running.stdout is not None
        for line in running.stdout:
            said += line
            if line.startswith("00:1") and not stopped:  # once: a second Ctrl-C is for those who cannot wait
                running.send_signal(signal.SIGINT)
                stopped = True
    assert running.returncode == 0, said
    assert "\x1b" not in said
    rows = {name: (counted, sent) for name, counted, sent, _ in ROW.findall(said)}
    assert {"in", "clean", "late", "duplicates dropped"} <= rows.keys()
    assert all(counted == sent for counted, sent in rows.values())
    assert int(rows["in"][0].replace(",", "")) > 100
