"""The versions of a model that score now: its champion, and the challengers that are tried beside it.

promote 3 ──▶ champion.json ──▶ loaded and tried, while 2 scores ──▶ 3 scores
                                       └── unfit: 2 goes on, and `trouble` says why
"""

import logging
import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from hashlib import blake2b
from pathlib import Path
from threading import Event, Thread
from typing import NamedTuple, Self, TypeVar

from headrace.declare.model import Model
from headrace.errors import HeadraceError
from headrace.score.champions import Loaded, LoadedFile, load_champion, load_file, load_version, name_of_champion
from headrace.score.learning import Learning, StillLearning
from headrace.score.roles import Champion
from headrace.score.versions import Versions

POLL_S = 0.25
SETTLED_NS = 250_000_000
RETRY_S = 60.0
STOP_S = 1.0
Made = TypeVar("Made")

_log = logging.getLogger(__name__)


class Identity(NamedTuple):
    """By what a file is known to be another one, without reading it."""

    inode: int
    written_ns: int
    size: int


@dataclass(frozen=True)
class Split:
    """The challenger that answers for a share of the keys."""

    challenger: Loaded
    share: float
    model: str

    def takes(self, key: str) -> bool:
        """Whether a key is in the share: the greater the share, the more keys, and none of them ever leaves.

        A key's place from 0 to 1 is the BLAKE2b hash of model, version and key: another challenger has other keys.
        """
        text = f"{self.model}\n{self.challenger.version}\n{key}"
        place = int.from_bytes(blake2b(text.encode("utf-8", "surrogatepass"), digest_size=8).digest())
        return place < self.share * 2**64


@dataclass(frozen=True)
class Standing:
    """Who scores at one moment. It never changes: who holds one scores with what it says, whatever is promoted.

    Every challenger is scored on each vector, for the record; the answer is that of `for_key`.
    """

    champion: Loaded
    challengers: tuple[Loaded, ...] = ()
    split: Split | None = None

    def for_key(self, key: str) -> Loaded:
        """Who answers for an entity, by the text of its key."""
        return self.split.challenger if self.split is not None and self.split.takes(key) else self.champion


class Lineup:
    """The standing of one model, kept up to date; a version that is unfit is told of, and the one before goes on.

    What a model learns stands beside its versions once it has learned what there was, or alone where there are none.
    """

    def __init__(self, model: Model, state: Path, learning: Learning | None = None) -> None:
        self.model = model
        self.trouble: str | None = None
        self._state, self._learning = state, learning
        self._versions = Versions(state, model.name)
        self._file = model.file or self._versions.file
        self._seen = self._identity()
        self._retry_at = 0.0
        self._stopped = Event()
        self._watcher: Thread | None = None
        self.standing = Standing(self._learned() if model.learns_alone else load_champion(model, state))
        self._update()

    @classmethod
    def of(cls, model: Model, state: Path, learning: Learning | None = None) -> Self:
        """The line-up of a model as it is now; raises what keeps its champion from scoring."""
        return cls(model, state, learning)

    def start(self, poll_s: float = POLL_S) -> None:
        """Look for what was promoted, from now on, in a thread."""
        self._stopped.clear()
        self._watcher = Thread(target=self._watch, args=(poll_s,), name=f"lineup-{self.model.name}", daemon=True)
        self._watcher.start()

    def stop(self) -> None:
        """Look no more."""
        self._stopped.set()
        if self._watcher is not None:
            self._watcher.join(STOP_S)

    def refresh(self) -> None:
        """Look once, where no thread does: what was promoted since is loaded, tried, and takes over in one step."""
        identity = self._identity()
        is_due = (self.trouble is not None and time.monotonic() >= self._retry_at) or self._has_learned
        if (identity != self._seen and self._is_settled(identity)) or is_due:
            self._seen = identity
            self._update()

    def _watch(self, poll_s: float) -> None:
        while not self._stopped.wait(poll_s):
            self.refresh()

    def _identity(self) -> Identity | None:
        try:
            found = self._file.stat()
        except OSError:
            return None
        return Identity(found.st_ino, found.st_mtime_ns, found.st_size)

    def _is_settled(self, identity: Identity | None) -> bool:
        """A champion's file appears whole; a declared one may still be being copied."""
        return self.model.file is None or identity is None or abs(time.time_ns() - identity.written_ns) >= SETTLED_NS

    def _update(self) -> None:
        troubles: list[str] = []
        roles = _without_failure(self._roles, troubles)
        standing = self.standing if roles is None else self._next(roles, troubles)
        if self.model.file is None or self._identity() == self._seen:
            self.standing = standing
        self._tell(f"Version {standing.champion.version} goes on: {' '.join(troubles)}" if troubles else None)

    def _roles(self) -> Champion:
        return self._versions.champion() if self.model.train is not None else Champion()

    def _next(self, roles: Champion, troubles: list[str]) -> Standing:
        """The standing that these roles make; whoever is unfit for one does not get it."""
        standing = (*self.standing.challengers, self.standing.champion)
        known = {one.version: one for one in standing if isinstance(one, LoadedFile)}
        champion = _without_failure(partial(self._champion, roles, known), troubles)
        load = partial(load_version, self.model, self._state, known=known)
        found = [_without_failure(partial(load, version), troubles) for version in roles.challengers]
        challengers = tuple(one for one in found if one is not None)
        splits = (Split(one, roles.challengers[one.version], self.model.name) for one in challengers)
        split = next((one for one in splits if one.share), None)
        return Standing(champion or self.standing.champion, (*challengers, *self._beside()), split)

    def _learned(self) -> Loaded:
        if self._learning is None:
            raise StillLearning(f"Model {self.model.name!r} learns from a log, and there is none here.")
        return self._learning.loaded

    def _beside(self) -> tuple[Loaded, ...]:
        """What it has learned, where that is not all there is to it."""
        is_ready = self._learning is not None and self._learning.is_ready and not self.model.learns_alone
        return (self._learned(),) if is_ready else ()

    @property
    def _has_learned(self) -> bool:
        """Whether it has learned what there was, and does not stand beside the others yet."""
        return any(one not in self.standing.challengers for one in self._beside())

    def _champion(self, roles: Champion, known: dict[str, LoadedFile]) -> Loaded:
        if self.model.learns_alone:
            return self._learned()
        if self.model.file is not None:
            return load_file(self.model, self.model.file, known)
        return load_version(self.model, self._state, name_of_champion(self.model, roles), known)

    def _tell(self, trouble: str | None) -> None:
        self._retry_at = time.monotonic() + RETRY_S
        if trouble != self.trouble:
            self.trouble = trouble
            if trouble is not None:
                _log.warning("%s", trouble)


def _without_failure(make: Callable[[], Made], troubles: list[str]) -> Made | None:
    try:
        return make()
    except HeadraceError as unfit:
        troubles.append(str(unfit))
    except Exception as failure:  # noqa: BLE001 - whatever a file or a model does, who scores goes on
        troubles.append(f"{type(failure).__name__}: {failure}.")
    return None
