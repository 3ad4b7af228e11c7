"""Parts that end are restarted for ever, each alone, with a growing back-off; and the messages about that."""

import json
import os
import signal
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from headrace.embedded_servers.ports import HOST, free_port
from headrace.errors import HeadraceError
from headrace.kafka.status.status_file import STATUS_FILE, read_status
from headrace.runtime import supervisor as supervise
from headrace.runtime.parts.part_reporter import PartReporter
from headrace.runtime.supervisor import ProcessPart, Supervisor
from tests.waiting import wait_until

SLEEPS = "import time; time.sleep(600)"
FAILS = "raise SystemExit('no such stream')"
LIMIT_S = 60.0


class Said(list[str]):
    """The log lines of a supervisor, and the supervisor."""


@pytest.fixture
def said() -> Said:
    return Said()


@pytest.fixture
def supervisor(said: Said) -> Iterator[Supervisor]:
    found = Supervisor(said.append)
    yield found
    found.stop()


@pytest.fixture
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """Pauses of a test's length."""
    monkeypatch.setattr(supervise, "INITIAL_BACKOFF_S", 0.01)
    monkeypatch.setattr(supervise, "MAX_BACKOFF_S", 0.08)
    monkeypatch.setattr(supervise, "RECOVERED_AFTER_S", 0.05)
    monkeypatch.setattr(supervise, "LOOK_EVERY_S", 0.02)


def part(folder: Path, program: str, name: str = "part") -> ProcessPart:
    return ProcessPart([sys.executable, "-c", program], folder / f"{name}.log")


def pid_of(one: ProcessPart) -> int:
    wait_until(lambda: one.pid is not None, LIMIT_S, "a process")
    assert one.pid is not None
    return one.pid


def kill(one: ProcessPart) -> int:
    pid = pid_of(one)
    os.kill(pid, signal.SIGKILL)
    wait_until(lambda: one.pid != pid, LIMIT_S, "its end")
    return pid


@pytest.mark.usefixtures("quick")
def test_a_part_that_is_killed_is_restarted_alone_and_says_why_and_what_is_affected(
    tmp_path: Path, supervisor: Supervisor, said: Said
) -> None:
    killed, beside = part(tmp_path, SLEEPS, "killed"), part(tmp_path, SLEEPS, "beside")
    supervisor.start("lake", killed, "No new rows.")
    supervisor.start("serve", beside)
    first, other = kill(killed), pid_of(beside)
    wait_until(lambda: killed.pid not in (None, first), LIMIT_S, "another process")
    wait_until(lambda: len(said) == 2, LIMIT_S, "it to run again", lambda: str(said))
    assert said[0] == "lake is down (restart 1, next in 0.01 s): killed by signal 9 (SIGKILL). Affected: No new rows."
    assert said[1].startswith("lake runs again after ")
    assert beside.pid == other
    lake, serve = supervisor.states()
    assert (lake.state, lake.restarts, lake.down_since_us) == ("running", 1, None)
    assert lake.error == "killed by signal 9 (SIGKILL)"
    assert (serve.state, serve.restarts, serve.error) == ("running", 0, "")


@pytest.mark.usefixtures("quick")
def test_a_part_that_keeps_ending_is_restarted_for_ever_and_said_only_while_the_pause_grows(
    tmp_path: Path, supervisor: Supervisor, said: Said, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(supervise, "RECOVERED_AFTER_S", LIMIT_S)
    runs = tmp_path / "runs"
    supervisor.start("lake", part(tmp_path, f"open({str(runs)!r}, 'a').write('.'); {FAILS}"))
    wait_until(lambda: runs.exists() and len(runs.read_text()) >= 9, LIMIT_S, "nine runs", lambda: str(said))
    assert [line.partition(":")[0] for line in said] == [
        "lake is down (restart 1, next in 0.01 s)",
        "lake is down (restart 2, next in 0.02 s)",
        "lake is down (restart 3, next in 0.04 s)",
        "lake is down (restart 4, next in 0.08 s)",
    ]
    assert said[0].endswith("exit code 1; its log ends with: no such stream.")
    (state,) = supervisor.states()
    assert state.down_since_us is not None
    assert state.restarts >= 8


@pytest.mark.usefixtures("quick")
def test_a_part_that_ends_for_another_reason_says_the_new_one(
    tmp_path: Path, supervisor: Supervisor, said: Said
) -> None:
    once = tmp_path / "once"
    program = f"import pathlib; p = pathlib.Path({str(once)!r}); n = len(p.read_text()) if p.exists() else 0\n"
    program += "p.write_text('.' * (n + 1)); raise ValueError('first' if n < 6 else 'second')"
    supervisor.start("lake", part(tmp_path, program))
    wait_until(lambda: any("second" in line for line in said), LIMIT_S, "the second reason", lambda: str(said))
    assert "ValueError: first" in said[0]


@pytest.mark.usefixtures("quick")
def test_a_part_whose_start_hangs_or_fails_holds_no_other_up(
    tmp_path: Path, supervisor: Supervisor, said: Said
) -> None:
    class Slow:
        """A broker that takes long to start, and never does."""

        def __init__(self) -> None:
            self.stopping = threading.Event()

        def start(self) -> None:
            self.stopping.wait(LIMIT_S)
            raise HeadraceError("The broker did not start.\nIts log ends with:\n...")

        def stop(self) -> None:
            self.stopping.set()

        def alive(self) -> bool:
            return False

        def exit_reason(self) -> str:
            return ""

    quick = part(tmp_path, SLEEPS)
    supervisor.start("broker", Slow())
    supervisor.start("lake", quick)
    first = kill(quick)
    wait_until(lambda: quick.pid not in (None, first), LIMIT_S / 2, "the lake while the broker starts")
    assert supervisor.states()[0].state == "starting"
    assert not any(line.startswith("broker") for line in said)


def test_a_pause_begins_anew_after_a_part_ran_steadily(
    tmp_path: Path, supervisor: Supervisor, said: Said, quick: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(supervise, "RESET_BACKOFF_AFTER_S", 0.1)
    sleeper = part(tmp_path, SLEEPS)
    supervisor.start("lake", sleeper)
    for ends in (1, 2):
        kill(sleeper)
        wait_until(lambda ends=ends: len(said) == 2 * ends, LIMIT_S, "it to run again", lambda: str(said))
        wait_until(lambda: supervisor._part_supervisors["lake"]._failures == 0, LIMIT_S, "it to run steadily")
    assert said[2].startswith("lake is down (restart 2, next in 0.01 s)")


@pytest.mark.usefixtures("quick")
def test_the_logs_of_the_last_runs_are_kept(tmp_path: Path, supervisor: Supervisor) -> None:
    runs = tmp_path / "runs"
    program = f"import os; f = open({str(runs)!r}, 'a'); f.write('.'); print('run', f.tell(), flush=True); {FAILS}"
    keeper = supervisor.start("lake", part(tmp_path, program, "lake"))
    wait_until(lambda: runs.exists() and len(runs.read_text()) >= 8, LIMIT_S, "eight runs")
    keeper.stop()
    kept = sorted(tmp_path.glob("lake.log*"))
    assert [log.name for log in kept] == ["lake.log", *(f"lake.log.{number}" for number in range(1, 6))]
    numbers = [int(log.read_text().split()[1]) for log in kept if log.read_text().startswith("run")]
    assert numbers == sorted(numbers, reverse=True)


def test_a_part_that_is_to_be_started_later_is_reported_as_starting(tmp_path: Path, supervisor: Supervisor) -> None:
    supervisor.plan("serve", "Nothing is served.")
    supervisor.plan("lake", "No new rows.")
    assert [(one.name, one.state) for one in supervisor.states()] == [("serve", "starting"), ("lake", "starting")]
    sleeper = part(tmp_path, SLEEPS)
    supervisor.start("serve", sleeper, "Nothing is served.")
    wait_until(lambda: supervisor.states()[0].state == "running", LIMIT_S, "it to run")
    assert [(one.name, one.state) for one in supervisor.states()] == [("serve", "running"), ("lake", "starting")]


def test_parts_are_stopped_the_last_started_first(tmp_path: Path, said: Said) -> None:
    supervisor = Supervisor(said.append)
    for name in ("first", "second"):
        one = part(tmp_path, SLEEPS, name)
        supervisor.start(name, one)
        pid_of(one)
    supervisor.stop()
    assert said == ["stopping second", "stopping first"]
    assert {state.state for state in supervisor.states()} == {"stopped"}


@pytest.mark.usefixtures("quick")
def test_states_are_written_to_a_file_while_no_broker_answers(tmp_path: Path, supervisor: Supervisor) -> None:
    sleeper = part(tmp_path, SLEEPS)
    supervisor.start("lake", sleeper, "No new rows.")
    pid_of(sleeper)
    broker = f"{HOST}:{free_port()}"
    reporter = PartReporter("shop", broker, tmp_path, supervisor.states)
    reporter.start()
    try:
        wait_until((tmp_path / STATUS_FILE).exists, LIMIT_S, "the file")
        before = read_status(tmp_path)
        assert before is not None
        assert before.supervisor["pid"] == os.getpid()
        assert before.broker == broker
        kill(sleeper)
        wait_until(lambda: _restarts(tmp_path) == 1, LIMIT_S, "the restart in the file")
        written = json.loads((tmp_path / STATUS_FILE).read_text())
        assert written["parts"][0]["error"] == "killed by signal 9 (SIGKILL)"
        assert written["parts"][0]["affects"] == "No new rows."
        assert time.time_ns() // 1000 - written["at_us"] < LIMIT_S * 1_000_000
    finally:
        reporter.stop()
    after = read_status(tmp_path)
    assert after is not None
    assert [one.state for one in after.parts] == ["stopped"]


def _restarts(folder: Path) -> int:
    status = read_status(folder)
    return 0 if status is None else status.parts[0].restarts
