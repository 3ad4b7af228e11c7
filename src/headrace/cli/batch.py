"""A Spark session for one command."""

import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from headrace.local.jars import jar_paths
from headrace.local.java import find_java


@contextmanager
def batch_session(master: str | None) -> Iterator[Any]:
    """Spark on a master or, without one, on every core of this machine; stopped in the end."""
    from headrace.stream.session import SparkPlace, start_session
    from headrace.stream.session_liveness import stopped_at_end

    os.environ["JAVA_HOME"] = str(find_java().home)
    with tempfile.TemporaryDirectory() as scratch:
        place = SparkPlace(master, os.cpu_count() or 1, jar_paths("spark"), Path(scratch), streams=False)
        with stopped_at_end(start_session(place)) as spark:
            yield spark
