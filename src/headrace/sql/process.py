"""The process beside a server that answers its queries: started with the first, and anew after one that ended it."""

import logging
import os
import subprocess
import sys
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

from headrace.errors import HeadraceError
from headrace.sql.columns import Columns
from headrace.sql.errors import SqlRefused, TookTooLong, TookTooMuch
from headrace.sql.messages import FAILED, READY, REFUSED, Asked, There, longest_wait, packed, read_frame, write_frame

START_SECONDS, GRACE_SECONDS = 60.0, 3.0
# Not HEADRACE_STORE and HEADRACE_WEBHOOK, which may hold secrets, nor anything else that it does not need.
ENVIRONMENT = {"PATH", "HOME", "LANG", "LC_ALL", "PYTHONPATH", "LD_LIBRARY_PATH", "VIRTUAL_ENV"}
LOGGER = logging.getLogger("headrace.sql")


class SqlFailed(HeadraceError):
    """A process that does not start, or fails on a query in a way that is ours."""

    def __init__(self) -> None:
        super().__init__("The process that answers queries failed; the server's log says why. Please report it.")


class SqlProcess:
    """Asks one process one query at a time; for one thread, while another may stop it."""

    def __init__(self, lake: Path | None, live: Mapping[str, Columns]) -> None:
        self._there = packed(There(lake, live))
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def pid(self) -> int | None:
        """The process that waits for the next query, if there is one."""
        return None if self._process is None else self._process.pid

    def ask(self, asked: Asked, live: Sequence[bytes] = ()) -> bytes:
        """The answer in JSON; `live` are messages with the rows of live tables."""
        process = self._started()
        with self._killed_after(longest_wait(asked.seconds) + GRACE_SECONDS) as killed:
            said = _said(process, [*live, packed(asked)])
        if said is None:
            self.stop()
            raise TookTooLong(asked.seconds) if killed.is_set() else TookTooMuch
        kind, content = said[:1], said[1:]
        if kind == REFUSED:
            raise SqlRefused(content.decode())
        if kind == FAILED:
            LOGGER.error("a query failed: %s", content.decode())
            raise SqlFailed
        return content

    def interrupt(self) -> None:
        """End the query that is being answered, from another thread than the one that asks."""
        process = self._process
        if process is not None:
            process.kill()

    def stop(self) -> None:
        """End the process; the next query starts another."""
        process, self._process = self._process, None
        if process is not None:
            process.kill()
            process.wait()
            for pipe in filter(None, (process.stdin, process.stdout)):
                with suppress(BrokenPipeError):
                    pipe.close()

    def _started(self) -> subprocess.Popen[bytes]:
        if self._process is not None and self._process.poll() is None:
            return self._process
        self.stop()
        command = [sys.executable, "-m", "headrace.sql.worker"]
        environment = {name: os.environ[name] for name in ENVIRONMENT & os.environ.keys()}
        self._process = subprocess.Popen(command, env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        with self._killed_after(START_SECONDS):
            said = _said(self._process, [self._there])
        if said != READY:
            self.stop()
            raise SqlFailed
        return self._process

    @contextmanager
    def _killed_after(self, seconds: float) -> Iterator[threading.Event]:
        """Kills a process that does not answer; the event says that it was killed."""
        killed, process = threading.Event(), self._process

        def kill() -> None:
            killed.set()
            if process is not None:
                process.kill()

        timer = threading.Timer(seconds, kill)
        timer.start()
        try:
            yield killed
        finally:
            timer.cancel()


def _said(process: subprocess.Popen[bytes], messages: Sequence[bytes]) -> bytes | None:
    """What a process answers to messages; None where it ended."""
    if process.stdin is None or process.stdout is None:
        return None
    try:
        for message in messages:
            write_frame(process.stdin, message)
    except BrokenPipeError:
        return None
    return read_frame(process.stdout)
