"""`headrace run APP serve --workers N`: so many processes on one port, each started again if it ends."""

import logging
import shutil
import sys
import threading
from pathlib import Path

from headrace.cli.settings import Settings
from headrace.local.supervise import ProcessPart, Supervisor
from headrace.serve.colleagues import Worker
from headrace.serve.listen import bind

LOGGER = logging.getLogger("headrace.serve")


def serve_by_workers(settings: Settings, stop: threading.Event) -> None:
    """Keep the workers of a server up until `stop` is set."""
    # Nobody else listens there yet: a port that is shared is shared with whoever asks for it.
    bind(settings.host, settings.port).close()
    folder = _folder(settings)
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    supervisor = Supervisor(LOGGER.info)
    # Held here as well: while a worker is started again, nobody takes the port.
    with bind(settings.host, settings.port, is_shared=True):
        try:
            for number in range(1, settings.workers + 1):
                supervisor.start(f"worker {number}", _part(number, settings))
            supervisor.watch(stop)
        finally:
            supervisor.stop()


def worker_of(settings: Settings) -> Worker | None:
    """Which worker this process is, if it is one."""
    return None if settings.worker is None else Worker(settings.worker, settings.workers, _folder(settings))


def _part(number: int, settings: Settings) -> ProcessPart:
    """A worker is this very command, told which it is."""
    command = [sys.executable, "-m", "headrace", *sys.argv[1:], "--worker", str(number)]
    return ProcessPart(command, settings.state / "logs" / f"serve-{number}.log")


def _folder(settings: Settings) -> Path:
    return settings.state / "workers"
