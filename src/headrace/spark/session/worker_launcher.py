"""The launcher of Spark's Python workers on this machine: with the installed pyspark, which is compiled already.

Spark puts its own `pyspark.zip` first on the path of its workers. A zip has no compiled modules, so each worker process
compiles what it imports, which takes four times the processor time. The worker that starts a stateful operation must
connect within ten seconds, which no setting changes, and on a busy machine that was too short.
"""

import os
import shlex
import sys
from pathlib import Path

import pyspark

LAUNCHER_NAME = "python-worker"


def write_worker_launcher(folder: Path) -> str:
    """Write the program that Spark starts as Python to a folder; returns Python itself where it cannot be run there.

    Workers search modules where this process does, then among the packages installed with pyspark.
    """
    launcher = folder.resolve() / LAUNCHER_NAME
    launcher.parent.mkdir(parents=True, exist_ok=True)
    launcher.write_text(_launcher_script(os.environ.get("PYTHONPATH", ""), Path(pyspark.__file__).parent.parent))
    launcher.chmod(0o700)
    return str(launcher) if os.access(launcher, os.X_OK) else sys.executable


def _launcher_script(python_path: str, packages: Path) -> str:
    search_path = ":".join(filter(None, [python_path, str(packages)]))
    return (
        f'#!/bin/sh\nexport PYTHONPATH={shlex.quote(search_path)}:"$PYTHONPATH"\nexec '
        f'{shlex.quote(sys.executable)} "$@"\n'
    )
