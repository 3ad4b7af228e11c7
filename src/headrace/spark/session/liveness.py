"""Whether a Spark session still works: without its Java process only a restart of the whole process helps."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager

from pyspark.sql import SparkSession

from headrace.errors import HeadraceError

POLL_SECONDS = 1.0


class SessionLost(HeadraceError):
    """Spark's Java process has ended, or its context was stopped."""


def is_session_alive(spark: SparkSession) -> bool:
    """Whether the Java process of a session runs, and its context was not stopped."""
    process = getattr(spark.sparkContext._gateway, "proc", None)  # noqa: SLF001  # None if another process started Java
    if process is not None and process.poll() is not None:
        return False
    try:
        return not spark.sparkContext._jsc.sc().isStopped()  # noqa: SLF001
    except Exception:  # noqa: BLE001  # Py4J raises socket errors as well as its own: Java does not answer
        return False


def require_alive(spark: SparkSession) -> None:
    """Raise where a session is gone: the supervisor then restarts this process."""
    if not is_session_alive(spark):
        raise SessionLost("Spark's Java process has ended, or its context was stopped: this process ends as well.")


def wait_while_alive(spark: SparkSession, stop: threading.Event) -> None:
    """Wait until `stop` is set; raises as soon as the session is gone."""
    while not stop.wait(POLL_SECONDS):
        require_alive(spark)


@contextmanager
def stop_session_at_exit(spark: SparkSession) -> Iterator[SparkSession]:
    """Stop a session at the end of the block, unless it is gone by then."""
    try:
        yield spark
    finally:
        if is_session_alive(spark):
            spark.stop()
