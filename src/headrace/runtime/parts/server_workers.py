"""`headrace run APP serve --workers N`: N processes on one port, each restarted if it ends."""

import logging
import os
import shutil
import sys
import threading
from collections.abc import Sequence
from pathlib import Path

from headrace.runtime.configuration.part_arguments import SECRET_FLAGS, secret_variables
from headrace.runtime.settings import Settings
from headrace.runtime.supervisor import ProcessPart, Supervisor
from headrace.server.http.listener import bind
from headrace.server.metrics.worker_stats import ServerWorker

LOGGER = logging.getLogger("headrace.serve")


def run_server_workers(settings: Settings, stop: threading.Event) -> None:
    """Keep the workers of a server running until `stop` is set."""
    # Fail if another process listens on the port: with SO_REUSEPORT, binding alone would not fail.
    bind(settings.host, settings.port).close()
    folder = _workers_folder(settings)
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    supervisor = Supervisor(LOGGER.info)
    # Bound here as well, so that no other program takes the port while a worker restarts.
    with bind(settings.host, settings.port, is_shared=True):
        try:
            for number in range(1, settings.workers + 1):
                supervisor.start(f"worker {number}", _worker_part(number, settings))
            supervisor.watch(stop)
        finally:
            supervisor.stop()


def current_worker(settings: Settings) -> ServerWorker | None:
    """The worker that this process is, if it is one."""
    return (
        None if settings.worker is None else ServerWorker(settings.worker, settings.workers, _workers_folder(settings))
    )


def _worker_part(number: int, settings: Settings) -> ProcessPart:
    """A worker: this command with --worker NUMBER; its secrets are passed in environment variables."""
    os.environ |= secret_variables(settings)
    command = [sys.executable, "-m", "headrace", *remove_secret_flags(sys.argv[1:]), "--worker", str(number)]
    return ProcessPart(command, settings.state / "logs" / f"serve-{number}.log")


def remove_secret_flags(arguments: Sequence[str]) -> list[str]:
    """A command line without the flags that may hold a password.

    >>> remove_secret_flags(["serve", "--store", "redis://:word@there", "--workers", "2", "--webhook=https://there/word"])
    ['serve', '--workers', '2']
    """
    pairs = zip(["", *arguments], arguments, strict=False)
    return [
        argument
        for previous, argument in pairs
        if previous not in SECRET_FLAGS and argument.partition("=")[0] not in SECRET_FLAGS
    ]


def _workers_folder(settings: Settings) -> Path:
    return settings.state / "workers"
