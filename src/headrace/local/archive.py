"""Archives of the classes of the broker and of the Spark driver, made once: a start from one takes half the time."""

import os
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

from headrace.errors import HeadraceError
from headrace.local.broker import Broker, archive_of
from headrace.local.jars import jar_paths
from headrace.local.java import find_java
from headrace.stream.class_archive import class_archive

KEPT = 4  # of one kind: each .venv has its own, of up to 200 MB


class ArchiveFailed(HeadraceError):
    """Java made no archive."""


def make_archives() -> None:
    """Run the broker and Spark once, for nothing but their classes; archives that are there already stay."""
    java = find_java()
    os.environ["JAVA_HOME"] = str(java.home)
    _make(archive_of(java, jar_paths("broker")), _run_broker)
    if (archive := class_archive(jar_paths("spark"))) is not None:
        _make(archive, _run_spark)


def _make(archive: Path, run: Callable[[Path, Path], None]) -> None:
    if archive.exists():
        return
    archive.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=archive.parent) as folder:
        unfinished = Path(folder) / archive.name
        run(Path(folder), unfinished)
        if not unfinished.is_file():
            raise ArchiveFailed(f"Java wrote no {unfinished.name}.")
        unfinished.replace(archive)
    kind = archive.name.partition("-")[0]
    for old in sorted(archive.parent.glob(f"{kind}-*.jsa"), key=lambda one: one.stat().st_mtime)[:-KEPT]:
        old.unlink(missing_ok=True)


def _run_broker(folder: Path, unfinished: Path) -> None:
    with Broker(folder, port=0, jvm=(f"-XX:ArchiveClassesAtExit={unfinished}",)):
        pass


def _run_spark(folder: Path, unfinished: Path) -> None:
    with Broker(folder, port=0) as broker:
        words = [broker.address, str(folder), str(unfinished), *map(str, jar_paths("spark"))]
        training = [sys.executable, "-m", "headrace.stream.archive_training", *words]
        subprocess.run(training, check=True, stdout=subprocess.DEVNULL)


if __name__ == "__main__":
    try:
        make_archives()
    except (HeadraceError, OSError, subprocess.CalledProcessError) as error:
        sys.exit(str(error))
