"""A Spark session for one command, or for a part that is not one of queries alone."""

import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import click

from headrace.embedded_servers.jars import jar_paths
from headrace.embedded_servers.java import find_java
from headrace.runtime.error_log import command_log_file, is_debugging


def _redirect_spark_log() -> None:
    """Redirect Spark's log to the command's log file if stderr is a terminal."""
    context = click.get_current_context(silent=True)
    log_file = None if context is None or is_debugging() else command_log_file(context)
    if log_file is not None:
        os.environ |= {"HEADRACE_SPARK_LOG_TO": "file", "HEADRACE_SPARK_LOG": str(log_file.absolute())}


@contextmanager
def batch_session(master: str | None, driver_memory: str | None = None, *, is_streaming: bool = False) -> Iterator[Any]:
    """A Spark session on a master or, without one, on all cores of this machine; stopped at the end."""
    from headrace.spark.session.liveness import stop_session_at_exit
    from headrace.spark.session.session import SparkSessionConfig, start_session

    os.environ["JAVA_HOME"] = str(find_java().home)
    _redirect_spark_log()
    with tempfile.TemporaryDirectory() as scratch_folder:
        spark_config = SparkSessionConfig(
            master,
            os.cpu_count() or 1,
            jar_paths("spark"),
            Path(scratch_folder),
            is_streaming=is_streaming,
            driver_memory=driver_memory,
        )
        with stop_session_at_exit(start_session(spark_config)) as spark:
            yield spark
