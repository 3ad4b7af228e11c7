"""A folder in which one Headrace process at a time runs a server, and the process of that server.

STATE/broker/owner.lock   locked by the process that runs it, until that stops or dies
STATE/broker/broker.pid   the server's process, so that one left over by a crash can be found and ended
"""

import fcntl
import json
from dataclasses import asdict
from pathlib import Path
from typing import IO

from headrace.embedded_servers.child_process import ChildProcess, ProcessId
from headrace.embedded_servers.log_files import rotate_log
from headrace.errors import HeadraceError


class StateFolderInUseError(HeadraceError):
    """Another Headrace process runs a server on the same state folder."""


class ServerFolder:
    """The folder of one server; its name is also the name of its files."""

    def __init__(self, state_dir: Path | str, server: str) -> None:
        self.path = Path(state_dir).absolute() / server
        self.log = self.path / f"{server}.log"
        self.output = self.path / f"{server}.out"
        self._pid_file = self.path / f"{server}.pid"
        self._lock: IO[str] | None = None

    @property
    def is_locked(self) -> bool:
        """Whether this process has the lock."""
        return self._lock is not None

    def lock(self, activity: str, *, mode: int = 0o777) -> None:
        """Lock this folder against other Headrace processes until unlock or death; `activity` is for errors."""
        self.path.mkdir(parents=True, exist_ok=True, mode=mode)
        lock_file = (self.path / "owner.lock").open("a")
        try:
            fcntl.flock(lock_file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            lock_file.close()
            raise StateFolderInUseError(
                f"Another Headrace process {activity} {self.path}. Stop that one, or choose another folder "
                f"with --state."
            ) from error
        self._lock = lock_file

    def unlock(self) -> None:
        if self._lock:
            self._lock.close()
            self._lock = None

    @property
    def has_recorded_process(self) -> bool:
        """Whether a process is recorded: a clean stop removes the record."""
        return self._pid_file.exists()

    def recorded_process(self) -> ProcessId | None:
        """The process last recorded as this folder's server; it may have ended since."""
        try:
            return ProcessId(**json.loads(self._pid_file.read_text()))
        except (OSError, ValueError, TypeError):  # missing, or cut short by a crash: then no process can be identified
            return None

    def record_process(self, child: ChildProcess) -> None:
        if process := ProcessId.from_pid(child.pid):
            self._pid_file.write_text(json.dumps(asdict(process)))

    def forget_process(self) -> None:
        self._pid_file.unlink(missing_ok=True)

    def rotate_logs(self) -> None:
        """Rotate the logs: keep those of the last runs."""
        rotate_log(self.log)

    def read_output(self) -> str:
        """All output of this run."""
        return "".join(path.read_text(errors="replace") for path in (self.output, self.log) if path.exists())

    def log_tail(self, lines: int = 12) -> str:
        """The end of the output."""
        return "\n".join(self.read_output().splitlines()[-lines:])
