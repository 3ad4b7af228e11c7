"""The attempts to train a model anew: one at a time, and when the last one was.

STATE/models/fraud/
    .retraining     locked while somebody trains
    .tried          its time is that of the last attempt that came to an end, whatever came of it
"""

import fcntl
from collections.abc import Iterator
from contextlib import contextmanager

from headrace.errors import HeadraceError
from headrace.score.versions import Versions

LOCK, TRIED = ".retraining", ".tried"


class AlreadyTraining(HeadraceError):
    """A model that somebody else is training anew, or has just trained."""


@contextmanager
def alone(versions: Versions, known_us: int | None = None) -> Iterator[None]:
    """One training anew of a model at a time; with `known_us`, only where nobody has tried since that attempt.

    An attempt that is cut short by a kill is none: it is made again.
    """
    versions.folder.mkdir(parents=True, exist_ok=True)
    with (versions.folder / LOCK).open("w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise AlreadyTraining(f"Model {versions.model!r} is being trained anew already. Try again later.") from None
        if known_us is not None and tried_us(versions, known_us) != known_us:
            raise AlreadyTraining(f"Model {versions.model!r} was trained anew just now, by somebody else.")
        try:
            yield
        finally:
            note_tried(versions)


def note_tried(versions: Versions) -> None:
    """An attempt has come to an end now."""
    (versions.folder / TRIED).touch()


def tried_us(versions: Versions, otherwise_us: int) -> int:
    """When a model was last trained or tried to be."""
    marks = [versions.folder / name for name in (TRIED, *versions.names()[-1:])]
    return max((file.stat().st_mtime_ns // 1000 for file in marks if file.exists()), default=otherwise_us)
