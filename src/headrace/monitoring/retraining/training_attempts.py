"""Attempts to retrain a model: one at a time, and the time of the last one.

STATE/models/fraud/
    .retraining     locked while a process trains
    .tried          its modification time is the end of the last attempt, successful or not
"""

import fcntl
from collections.abc import Iterator
from contextlib import contextmanager

from headrace.errors import HeadraceError
from headrace.models.versions.version_store import VersionStore

LOCK_FILE, ATTEMPT_FILE = ".retraining", ".tried"


class AlreadyTrainingError(HeadraceError):
    """Another process is retraining the model, or has just done so."""


@contextmanager
def training_lock(versions: VersionStore, expected_attempt_us: int | None = None) -> Iterator[None]:
    """Allow one retraining of a model at a time; with `expected_attempt_us`, only if there was none since that attempt.

    An attempt that a kill cuts short does not count: it is repeated.
    """
    versions.folder.mkdir(parents=True, exist_ok=True)
    with (versions.folder / LOCK_FILE).open("w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise AlreadyTrainingError(
                f"Model {versions.model!r} is already being retrained. Try again later."
            ) from None
        if expected_attempt_us is not None and last_attempt_us(versions, expected_attempt_us) != expected_attempt_us:
            raise AlreadyTrainingError(f"Model {versions.model!r} was retrained just now, by another process.")
        try:
            yield
        finally:
            record_attempt(versions)


def record_attempt(versions: VersionStore) -> None:
    """Record the end of an attempt."""
    (versions.folder / ATTEMPT_FILE).touch()


def last_attempt_us(versions: VersionStore, default_us: int) -> int:
    """The time of the last attempt to retrain a model."""
    files = [versions.folder / name for name in (ATTEMPT_FILE, *versions.list_versions()[-1:])]
    return max((file.stat().st_mtime_ns // 1000 for file in files if file.exists()), default=default_us)
