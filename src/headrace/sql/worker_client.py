"""The process beside a server that runs its queries: started for the first query, and restarted after a failed one."""

import logging
import os
import subprocess
import sys
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

from headrace.errors import HeadraceError
from headrace.sql.errors import QueryMemoryError, QueryTimeoutError, SqlRefused
from headrace.sql.live_columns import SqlColumns
from headrace.sql.worker_messages import (
    FAILED,
    READY,
    REFUSED,
    SqlRequest,
    SqlWorkerSetup,
    encode_message,
    max_wait_seconds,
    read_frame,
    write_frame,
)

START_TIMEOUT_SECONDS, GRACE_SECONDS = 60.0, 3.0
# Not HEADRACE_STORE and HEADRACE_WEBHOOK, which may contain secrets, nor anything else that it does not need.
INHERITED_VARIABLES = {"PATH", "HOME", "LANG", "LC_ALL", "PYTHONPATH", "LD_LIBRARY_PATH", "VIRTUAL_ENV"}
LOGGER = logging.getLogger("headrace.sql")


class SqlProcessFailed(HeadraceError):
    """The query process does not start, or fails on a query because of a defect in Headrace."""

    def __init__(self) -> None:
        super().__init__("The process that runs queries failed; the server's log says why. Please report it.")


class SqlProcess:
    """Sends one query at a time to a process; for one thread, while another may stop it."""

    def __init__(self, lake_folder: Path | None, live_columns: Mapping[str, SqlColumns]) -> None:
        self._setup_message = encode_message(SqlWorkerSetup(lake_folder, live_columns))
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def pid(self) -> int | None:
        """The id of the running process, if there is one."""
        return None if self._process is None else self._process.pid

    def run_query(self, request: SqlRequest, live_messages: Sequence[bytes] = ()) -> bytes:
        """The result as JSON; `live_messages` have the rows of live tables."""
        process = self._ensure_started()
        with self._kill_after(max_wait_seconds(request.limit_seconds) + GRACE_SECONDS) as killed:
            reply = _exchange_messages(process, [*live_messages, encode_message(request)])
        if reply is None:
            self.stop()
            raise QueryTimeoutError(request.limit_seconds) if killed.is_set() else QueryMemoryError
        reply_kind, content = reply[:1], reply[1:]
        if reply_kind == REFUSED:
            raise SqlRefused(content.decode())
        if reply_kind == FAILED:
            LOGGER.error("Query failed: %s", content.decode())
            raise SqlProcessFailed
        return content

    def interrupt(self) -> None:
        """End the running query, from another thread."""
        process = self._process
        if process is not None:
            process.kill()

    def stop(self) -> None:
        """Stop the process; the next query starts another."""
        process, self._process = self._process, None
        if process is not None:
            process.kill()
            process.wait()
            for pipe in filter(None, (process.stdin, process.stdout)):
                with suppress(BrokenPipeError):
                    pipe.close()

    def _ensure_started(self) -> subprocess.Popen[bytes]:
        if self._process is not None and self._process.poll() is None:
            return self._process
        self.stop()
        command = [sys.executable, "-m", "headrace.sql.worker_main"]
        environment = {name: os.environ[name] for name in INHERITED_VARIABLES & os.environ.keys()}
        self._process = subprocess.Popen(command, env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        with self._kill_after(START_TIMEOUT_SECONDS):
            reply = _exchange_messages(self._process, [self._setup_message])
        if reply != READY:
            self.stop()
            raise SqlProcessFailed
        return self._process

    @contextmanager
    def _kill_after(self, seconds: float) -> Iterator[threading.Event]:
        """Kill a process that does not answer in time; the event says that it was killed."""
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


def _exchange_messages(process: subprocess.Popen[bytes], messages: Sequence[bytes]) -> bytes | None:
    """The answer of a process to messages; None if it ended."""
    if process.stdin is None or process.stdout is None:
        return None
    try:
        for message in messages:
            write_frame(process.stdin, message)
    except BrokenPipeError:
        return None
    return read_frame(process.stdout)
