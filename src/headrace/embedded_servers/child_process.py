"""A child process that never outlives the process that started it."""

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Self

# Runs in the child before the program itself: the kernel sends SIGTERM when the parent dies, however it dies.
_LAUNCHER_SCRIPT = """
import ctypes, os, signal, sys
if sys.platform == "linux":
    PR_SET_PDEATHSIG = 1
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGTERM)
if os.getppid() != int(sys.argv[1]):
    sys.exit("the parent process is gone")
os.execv(sys.argv[2], sys.argv[2:])
"""
_LOOK_EVERY_S = 0.02


@dataclass(frozen=True)
class ProcessId:
    """A process identified by more than its pid, which may belong to another program by now."""

    pid: int
    started: str

    @classmethod
    def from_pid(cls, pid: int) -> Self | None:
        """The identity of a running process."""
        started = _process_start(pid)
        return cls(pid, started) if started else None

    def is_alive(self) -> bool:
        """Whether this process still runs."""
        return _process_start(self.pid) == self.started

    def signal(self, number: signal.Signals) -> None:
        """Send a signal, if it is still this process."""
        if self.is_alive():
            try:
                os.kill(self.pid, number)
            except ProcessLookupError:
                return

    def wait(self, limit_s: float) -> bool:
        """Wait until it ends; False where it still runs after the limit."""
        deadline = time.monotonic() + limit_s
        while self.is_alive():
            if time.monotonic() > deadline:
                return False
            time.sleep(_LOOK_EVERY_S)
        return True

    def stop(self, grace_s: float) -> None:
        """Terminate it, and kill it where it does not end."""
        self.signal(signal.SIGTERM)
        if not self.wait(grace_s):
            self.signal(signal.SIGKILL)
            self.wait(grace_s)


class ChildProcess:
    """A child process in a session of its own, so that Ctrl-C reaches only the parent."""

    def __init__(self, command: Sequence[str], *, folder: Path, output: Path) -> None:
        self._command = [sys.executable, "-I", "-S", "-c", _LAUNCHER_SCRIPT, str(os.getpid()), *command]
        self._folder = folder
        self._output = output
        self._process: subprocess.Popen[bytes] | None = None
        self._start_error: OSError | None = None
        self._started = threading.Event()
        self._ended = threading.Event()

    def start(self, environment: Mapping[str, str] | None = None) -> None:
        """Start the program; its output replaces the output file."""
        # For the kernel the parent is the thread that forks, so a thread that lives as long as the child forks it.
        threading.Thread(target=self._run, args=(environment,), name="child", daemon=True).start()
        self._started.wait()
        if self._start_error:
            raise self._start_error

    @property
    def pid(self) -> int:
        """The program's process id."""
        if self._process is None:
            raise RuntimeError(f"{self._command[6]} has not been started")
        return self._process.pid

    @property
    def exit_code(self) -> int | None:
        """Its exit code, negative where a signal ended it; None while it runs or where it never ran."""
        return None if self._process is None else self._process.returncode

    def is_alive(self) -> bool:
        """Whether the program runs."""
        return self._process is not None and not self._ended.is_set()

    def wait(self, limit_s: float) -> bool:
        """Wait until it ends; False where it still runs after the limit."""
        return self._ended.wait(limit_s)

    def stop(self, grace_s: float) -> bool:
        """Terminate it, and kill it where it does not end; True where it ended without being killed."""
        if self._process is None or not self.is_alive():
            return False
        self._process.terminate()
        if self.wait(grace_s):
            return True
        self._process.kill()
        self.wait(grace_s)
        return False

    def _run(self, environment: Mapping[str, str] | None) -> None:
        try:
            with self._output.open("wb") as output:
                self._process = subprocess.Popen(
                    self._command,
                    cwd=self._folder,
                    env=None if environment is None else dict(environment),
                    stdin=subprocess.DEVNULL,
                    stdout=output,
                    stderr=output,
                    start_new_session=True,
                )
        except OSError as error:
            self._start_error = error
            return
        finally:
            self._started.set()
        self._process.wait()
        self._ended.set()


def _process_start(pid: int) -> str | None:
    """When a process started, in a form that no later process of the same pid shares; None once it has ended."""
    try:
        stat_fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
        boot_id = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    except OSError:
        return None if Path("/proc/self").exists() else _process_start_from_ps(pid)
    if stat_fields[0] in "ZX" and _thread_count(pid) <= 1:
        return None
    return f"{boot_id}/{stat_fields[19]}"


def _thread_count(pid: int) -> int:
    """How many threads a process still has; a dying process keeps its ports until the last one ends."""
    try:
        return sum(1 for _ in Path(f"/proc/{pid}/task").iterdir())
    except OSError:
        return 0


def _process_start_from_ps(pid: int) -> str | None:
    result = subprocess.run(["/bin/ps", "-o", "lstart=", "-p", str(pid)], capture_output=True, text=True, check=False)
    return result.stdout.strip() or None
