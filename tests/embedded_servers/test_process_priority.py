"""Lowering a process's priority applies to all its threads, and to the processes it starts."""

import os
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from headrace.embedded_servers.process_priority import NICE_LEVEL, lower_priority

WAITS = """
import sys, threading
threading.Thread(target=sys.stdin.read).start()
print("begun", flush=True)
"""


@pytest.mark.skipif(not Path("/proc/self/task").exists(), reason="no priorities of threads to ask for")
def test_every_thread_of_a_process_gives_way_and_nobody_else() -> None:
    own = os.getpriority(os.PRIO_PROCESS, 0)
    with subprocess.Popen([sys.executable, "-c", WAITS], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as other:
        assert other.stdout is not None
        other.stdout.readline()
        threads = [int(task.name) for task in Path(f"/proc/{other.pid}/task").iterdir()]
        lower_priority(other.pid)
        assert len(threads) == 2
        assert {os.getpriority(os.PRIO_PROCESS, thread) for thread in threads} == {NICE_LEVEL}
        assert os.getpriority(os.PRIO_PROCESS, threading.get_native_id()) == os.getpriority(os.PRIO_PROCESS, 0) == own
        other.kill()


@pytest.mark.skipif(not Path("/proc/self/autogroup").exists(), reason="no cores that are shared out to sessions")
@pytest.mark.parametrize("has_its_own", [True, False])
def test_a_session_gives_way_where_it_is_the_process_s_own(has_its_own: bool) -> None:
    with subprocess.Popen([sys.executable, "-c", WAITS], stdin=subprocess.PIPE, start_new_session=has_its_own) as other:
        group = Path(f"/proc/{other.pid}/autogroup")
        before = group.read_text()
        lower_priority(other.pid)
        assert group.read_text() == (before.replace("nice 0", f"nice {NICE_LEVEL}") if has_its_own else before)
        other.kill()


def test_a_process_that_has_ended_meanwhile_keeps_no_other_from_giving_way() -> None:
    ended = subprocess.Popen([sys.executable, "-c", ""])
    ended.wait()
    with subprocess.Popen([sys.executable, "-c", WAITS], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as other:
        assert other.stdout is not None
        other.stdout.readline()
        lower_priority(ended.pid, other.pid)
        assert os.getpriority(os.PRIO_PROCESS, other.pid) == NICE_LEVEL
        other.kill()
