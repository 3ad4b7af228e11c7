"""Class data archives of the broker and of the Spark driver, created once: they halve the start-up time."""

import os
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

from headrace.embedded_servers.broker import EmbeddedBroker, broker_archive_path
from headrace.embedded_servers.jars import jar_paths
from headrace.embedded_servers.java import find_java
from headrace.errors import HeadraceError
from headrace.spark.session.class_archive import class_archive_path

KEPT_ARCHIVES = 4  # of one kind: each .venv has its own, of up to 200 MB


class ClassArchiveFailed(HeadraceError):
    """Java created no archive."""


def make_class_archives() -> None:
    """Run the broker and Spark once to record their classes; existing archives stay."""
    java = find_java()
    os.environ["JAVA_HOME"] = str(java.home)
    _make_archive(broker_archive_path(java, jar_paths("broker")), _archive_broker_classes)
    if (archive := class_archive_path(jar_paths("spark"))) is not None:
        _make_archive(archive, _archive_spark_classes)


def _make_archive(archive: Path, write_archive: Callable[[Path, Path], None]) -> None:
    if archive.exists():
        return
    archive.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=archive.parent) as folder:
        partial_archive = Path(folder) / archive.name
        write_archive(Path(folder), partial_archive)
        if not partial_archive.is_file():
            raise ClassArchiveFailed(f"Java wrote no {partial_archive.name}.")
        partial_archive.replace(archive)
    kind = archive.name.partition("-")[0]
    for old_archive in sorted(archive.parent.glob(f"{kind}-*.jsa"), key=lambda path: path.stat().st_mtime)[
        :-KEPT_ARCHIVES
    ]:
        old_archive.unlink(missing_ok=True)


def _archive_broker_classes(folder: Path, partial_archive: Path) -> None:
    with EmbeddedBroker(folder, port=0, jvm_options=(f"-XX:ArchiveClassesAtExit={partial_archive}",)):
        pass


def _archive_spark_classes(folder: Path, partial_archive: Path) -> None:
    with EmbeddedBroker(folder, port=0) as broker:
        arguments = [broker.address, str(folder), str(partial_archive), *map(str, jar_paths("spark"))]
        command = [sys.executable, "-m", "headrace.spark.session.class_archive_training", *arguments]
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL)


if __name__ == "__main__":
    try:
        make_class_archives()
    except (HeadraceError, OSError, subprocess.CalledProcessError) as error:
        sys.exit(str(error))
