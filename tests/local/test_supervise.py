import sys
import threading
from pathlib import Path

import pytest

from headrace.local import supervise
from headrace.local.supervise import PartFailed, ProcessPart, Supervisor
from tests.waiting import wait_until


def part(folder: Path, program: str) -> ProcessPart:
    return ProcessPart([sys.executable, "-c", program], folder / "part.log")


def test_a_part_that_is_killed_is_started_again(tmp_path: Path) -> None:
    said: list[str] = []
    supervisor = Supervisor(said.append)
    sleeper = part(tmp_path, "import time; time.sleep(600)")
    supervisor.start("sleeper", sleeper)
    first = sleeper.pid
    sleeper.stop()
    stop = threading.Event()
    watching = threading.Thread(target=supervisor.watch, args=(stop,))
    watching.start()
    wait_until(lambda: sleeper.pid not in (None, first), 20, "another process")
    stop.set()
    watching.join()
    supervisor.stop()
    assert not sleeper.alive()
    assert said == ["sleeper ended; starting it again", "stopping sleeper"]


def test_a_part_that_keeps_ending_is_given_up_with_its_last_words(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(supervise, "PATIENCE_S", 0.0)
    monkeypatch.setattr(supervise, "LONGEST_PAUSE_S", 0.01)
    supervisor = Supervisor(lambda _line: None)
    supervisor.start("broken", part(tmp_path, "raise SystemExit('no such stream')"))
    with pytest.raises(PartFailed, match=r"broken ended 6 times in a row.*\n.*no such stream"):
        supervisor.watch(threading.Event(), limit_s=60)
