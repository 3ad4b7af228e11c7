"""The attempts to train a model anew: one at a time, and when the last one was.

STATE/models/fraud/
    .retraining     locked while somebody trains
    .tried          its time is that of the last attempt that came to an end, whatever came of it
"""

import fcntl
from collections.abc import Iterator
from contextlib import contextmanager

from headrace.errors import HeadraceError
from headrace.models.versions.version_store import VersionStore

LOCK_FILE, ATTEMPT_FILE = ".retraining", ".tried"


class AlreadyTrainingError(HeadraceError):
    """A model that somebody else is training anew, or has just trained."""


@contextmanager
def training_lock(versions: VersionStore, expected_attempt_us: int | None = None) -> Iterator[None]:
    """One training anew of a model at a time; with `known_us`, only where nobody has tried since that attempt.

    An attempt that is cut short by a kill is none: it is made again.
    """
    versions.folder.mkdir(parents=True, exist_ok=True)
    with (versions.folder / LOCK_FILE).open("w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise AlreadyTrainingError(
                f"Model {versions.model!r} is being trained anew already. Try again later."
            ) from None
        if expected_attempt_us is not None and last_attempt_us(versions, expected_attempt_us) != expected_attempt_us:
            raise AlreadyTrainingError(f"Model {versions.model!r} was trained anew just now, by somebody else.")
        try:
            yield
        finally:
            record_attempt(versions)


def record_attempt(versions: VersionStore) -> None:
    """An attempt has come to an end now."""
    (versions.folder / ATTEMPT_FILE).touch()


def last_attempt_us(versions: VersionStore, default_us: int) -> int:
    """When a model was last trained or tried to be."""
    files = [versions.folder / name for name in (ATTEMPT_FILE, *versions.list_versions()[-1:])]
    return max((file.stat().st_mtime_ns // 1000 for file in files if file.exists()), default=default_us)
