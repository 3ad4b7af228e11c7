"""The broker's classes, read and verified once and kept: a start from this archive takes half the time."""

import sys
import tempfile
from pathlib import Path

from headrace.errors import HeadraceError
from headrace.local.broker import Broker, archive_of
from headrace.local.jars import jar_paths
from headrace.local.java import find_java


def make_archive() -> Path:
    """Run the broker once, for nothing but its classes; an archive that is there already stays."""
    archive = archive_of(find_java(), jar_paths("broker"))
    if archive.exists():
        return archive
    archive.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=archive.parent) as folder:
        unfinished = Path(folder) / archive.name
        with Broker(folder, port=0, jvm=(f"-XX:ArchiveClassesAtExit={unfinished}",)):
            pass
        unfinished.replace(archive)
    return archive


if __name__ == "__main__":
    try:
        make_archive()
    except (HeadraceError, OSError) as error:
        sys.exit(str(error))
