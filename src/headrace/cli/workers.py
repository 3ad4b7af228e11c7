"""`headrace run APP serve --workers N`: so many processes on one port, each started again if it ends."""

import logging
import os
import shutil
import sys
import threading
from collections.abc import Sequence
from pathlib import Path

from headrace.cli.settings import Settings
from headrace.local.supervise import ProcessPart, Supervisor
from headrace.serve.colleagues import Worker
from headrace.serve.listen import bind

SECRET = {"--store", "--webhook", "--otlp"}
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
    """A worker is this very command, told which it is, and in its environment what nobody else may read."""
    os.environ |= {"HEADRACE_STORE": settings.store, "HEADRACE_WEBHOOK": settings.webhook or ""}
    command = [sys.executable, "-m", "headrace", *without_secrets(sys.argv[1:]), "--worker", str(number)]
    return ProcessPart(command, settings.state / "logs" / f"serve-{number}.log")


def without_secrets(words: Sequence[str]) -> list[str]:
    """A command line without the flags that may hold a password.

    >>> without_secrets(["serve", "--store", "redis://:word@there", "--workers", "2", "--webhook=https://there/word"])
    ['serve', '--workers', '2']
    """
    pairs = zip(["", *words], words, strict=False)
    return [word for before, word in pairs if before not in SECRET and word.partition("=")[0] not in SECRET]


def _folder(settings: Settings) -> Path:
    return settings.state / "workers"
