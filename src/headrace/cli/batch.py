"""A Spark session for one command."""

import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import click

from headrace.cli.error_log import is_debugging, log_of_command
from headrace.local.jars import jar_paths
from headrace.local.java import find_java


def _log_to_file() -> None:
    """Have Spark's log in the file of the command, where its stderr is a terminal."""
    context = click.get_current_context(silent=True)
    log = None if context is None or is_debugging() else log_of_command(context)
    if log is not None:
        os.environ |= {"HEADRACE_SPARK_LOG_TO": "file", "HEADRACE_SPARK_LOG": str(log.absolute())}


@contextmanager
def batch_session(master: str | None) -> Iterator[Any]:
    """Spark on a master or, without one, on every core of this machine; stopped in the end."""
    from headrace.stream.session import SparkPlace, start_session
    from headrace.stream.session_liveness import stopped_at_end

    os.environ["JAVA_HOME"] = str(find_java().home)
    _log_to_file()
    with tempfile.TemporaryDirectory() as scratch:
        place = SparkPlace(master, os.cpu_count() or 1, jar_paths("spark"), Path(scratch), streams=False)
        with stopped_at_end(start_session(place)) as spark:
            yield spark
