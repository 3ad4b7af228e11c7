"""The catalogue of Iceberg tables: a SQLite file in their folder."""

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from pyiceberg.catalog import Catalog
from pyiceberg.catalog.sql import SqlCatalog

# An automatic retry on a newer table would not check whether the offsets have moved there.
NO_COMMIT_RETRIES = {"commit.retry.num-retries": "0"}
METADATA_RETENTION = {
    "write.metadata.delete-after-commit.enabled": "true",
    "write.metadata.previous-versions-max": "20",
}


def open_catalog(file: Path) -> Catalog:
    """Open the catalogue in a file; creates a missing one."""
    file = file.resolve()
    file.parent.mkdir(parents=True, exist_ok=True)
    with lock_folder(file.parent):
        if not file.exists():
            _create_catalog(file)
        return _load_catalog(file, warehouse=file.parent)


def _create_catalog(file: Path) -> None:
    """Create a catalogue elsewhere and move it: readers do not use our lock, and must find a complete file."""
    draft = file.with_name(f".{file.name}.unfinished")
    for leftover in (draft, draft.with_name(f"{draft.name}-journal")):  # of a crash
        leftover.unlink(missing_ok=True)
    _load_catalog(draft, warehouse=file.parent).close()
    draft.replace(file)


def _load_catalog(file: Path, warehouse: Path) -> Catalog:
    return SqlCatalog("headrace", uri=f"sqlite:///{file}", warehouse=warehouse.as_uri())


@contextmanager
def lock_folder(folder: Path) -> Iterator[None]:
    """Lock a folder for one thread of one process; the end of the process, by any cause, unlocks it."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)
