"""The live versions of a model: its champion and its challengers, reloaded on promotion.

promote 3 ──▶ champion.json ──▶ loaded and tried, while 2 scores ──▶ 3 scores
                                       └── invalid: 2 stays live, and `error` says why
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

from headrace.declare.models.model import Model
from headrace.errors import HeadraceError
from headrace.models.online_learning.learner_replica import LearnerNotReadyError, LearnerReplica
from headrace.models.versions.roles import VersionRoles
from headrace.models.versions.version_loader import (
    LoadedOnnxVersion,
    LoadedVersion,
    load_champion,
    load_declared_file,
    load_version,
    require_champion,
)
from headrace.models.versions.version_store import VersionStore

POLL_S = 0.25
SETTLED_NS = 250_000_000
RETRY_S = 60.0
STOP_TIMEOUT_S = 1.0
Result = TypeVar("Result")

_log = logging.getLogger(__name__)


class FileIdentity(NamedTuple):
    """The identity of a file, to detect another one without reading it."""

    inode: int
    modified_ns: int
    size: int


@dataclass(frozen=True)
class TrafficSplit:
    """The challenger that serves a share of the keys."""

    challenger: LoadedVersion
    share: float
    model: str

    def includes_key(self, key: str) -> bool:
        """Whether a key is in the share: a larger share only adds keys.

        A key's position from 0 to 1 is the BLAKE2b hash of model, version and key: another challenger gets other keys.
        """
        text = f"{self.model}\n{self.challenger.version}\n{key}"
        position = int.from_bytes(blake2b(text.encode("utf-8", "surrogatepass"), digest_size=8).digest())
        return position < self.share * 2**64


@dataclass(frozen=True)
class LiveVersions:
    """The versions that score at one time; immutable, so that a promotion does not affect a request in progress.

    Every challenger scores each vector, for the log; the served score is that of `version_for_key`.
    """

    champion: LoadedVersion
    challengers: tuple[LoadedVersion, ...] = ()
    split: TrafficSplit | None = None

    def version_for_key(self, key: str) -> LoadedVersion:
        """The version that serves an entity, by the text of its key."""
        return self.split.challenger if self.split is not None and self.split.includes_key(key) else self.champion


class VersionWatcher:
    """Keeps the live versions of one model up to date; reports an invalid version and keeps the one before.

    An online model becomes a challenger once it has caught up, or is the champion where there are no other versions.
    """

    def __init__(self, model: Model, state: Path, learner_replica: LearnerReplica | None = None) -> None:
        self.model = model
        self.error: str | None = None
        self._state, self._learner_replica = state, learner_replica
        self._version_store = VersionStore(state, model.name)
        self._file = model.file or self._version_store.roles_file
        self._loaded_identity = self._read_identity()
        self._retry_at = 0.0
        self._stop_requested = Event()
        self._thread: Thread | None = None
        self.live_versions = LiveVersions(
            self._require_learner() if model.learns_alone else load_champion(model, state)
        )
        self._reload()

    @classmethod
    def load(cls, model: Model, state: Path, learner_replica: LearnerReplica | None = None) -> Self:
        """The current live versions of a model; raises what prevents its champion from scoring."""
        return cls(model, state, learner_replica)

    def start(self, poll_s: float = POLL_S) -> None:
        """Watch for promotions in a thread."""
        self._stop_requested.clear()
        self._thread = Thread(target=self._watch, args=(poll_s,), name=f"lineup-{self.model.name}", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """Stop watching."""
        self._stop_requested.set()
        if self._thread is not None:
            self._thread.join(STOP_TIMEOUT_S)

    def refresh(self) -> None:
        """Check once, where no thread does: loads and tries a promoted version, then switches atomically."""
        identity = self._read_identity()
        is_due = (self.error is not None and time.monotonic() >= self._retry_at) or self._has_new_learner
        if (identity != self._loaded_identity and self._is_settled(identity)) or is_due:
            self._loaded_identity = identity
            self._reload()

    def _watch(self, poll_s: float) -> None:
        while not self._stop_requested.wait(poll_s):
            self.refresh()

    def _read_identity(self) -> FileIdentity | None:
        try:
            file_stat = self._file.stat()
        except OSError:
            return None
        return FileIdentity(file_stat.st_ino, file_stat.st_mtime_ns, file_stat.st_size)

    def _is_settled(self, identity: FileIdentity | None) -> bool:
        """A champion's file appears atomically; a declared one may still be being copied."""
        return self.model.file is None or identity is None or abs(time.time_ns() - identity.modified_ns) >= SETTLED_NS

    def _reload(self) -> None:
        errors: list[str] = []
        roles = _try_load(self._read_roles, errors)
        live_versions = self.live_versions if roles is None else self._load_live_versions(roles, errors)
        if self.model.file is None or self._read_identity() == self._loaded_identity:
            self.live_versions = live_versions
        self._set_error(f"Version {live_versions.champion.version} stays live: {' '.join(errors)}" if errors else None)

    def _read_roles(self) -> VersionRoles:
        return self._version_store.load_roles() if self.model.train is not None else VersionRoles()

    def _load_live_versions(self, roles: VersionRoles, errors: list[str]) -> LiveVersions:
        """The live versions of these roles; an invalid version gets none."""
        current_versions = (*self.live_versions.challengers, self.live_versions.champion)
        loaded_versions = {
            loaded.version: loaded for loaded in current_versions if isinstance(loaded, LoadedOnnxVersion)
        }
        champion = _try_load(partial(self._load_champion, roles, loaded_versions), errors)
        load = partial(load_version, self.model, self._state, loaded_versions=loaded_versions)
        loaded_challengers = [_try_load(partial(load, version), errors) for version in roles.challengers]
        challengers = tuple(one for one in loaded_challengers if one is not None)
        splits = (TrafficSplit(one, roles.challengers[one.version], self.model.name) for one in challengers)
        split = next((one for one in splits if one.share), None)
        return LiveVersions(
            champion or self.live_versions.champion, (*challengers, *self._learner_challengers()), split
        )

    def _require_learner(self) -> LoadedVersion:
        if self._learner_replica is None:
            raise LearnerNotReadyError(f"Model {self.model.name!r} learns from a log, which is not available here.")
        return self._learner_replica.loaded_version

    def _learner_challengers(self) -> tuple[LoadedVersion, ...]:
        """The online model as a challenger, where the model has other versions."""
        is_ready = self._learner_replica is not None and self._learner_replica.is_ready and not self.model.learns_alone
        return (self._require_learner(),) if is_ready else ()

    @property
    def _has_new_learner(self) -> bool:
        """Whether the online model has caught up, and is not a challenger yet."""
        return any(learner not in self.live_versions.challengers for learner in self._learner_challengers())

    def _load_champion(self, roles: VersionRoles, loaded_versions: dict[str, LoadedOnnxVersion]) -> LoadedVersion:
        if self.model.learns_alone:
            return self._require_learner()
        if self.model.file is not None:
            return load_declared_file(self.model, self.model.file, loaded_versions)
        return load_version(self.model, self._state, require_champion(self.model, roles), loaded_versions)

    def _set_error(self, error: str | None) -> None:
        self._retry_at = time.monotonic() + RETRY_S
        if error != self.error:
            self.error = error
            if error is not None:
                _log.warning("%s", error)


def _try_load(load: Callable[[], Result], errors: list[str]) -> Result | None:
    try:
        return load()
    except HeadraceError as error:
        errors.append(str(error))
    except Exception as failure:  # noqa: BLE001 - any error of a new version must not stop the live ones
        errors.append(f"{type(failure).__name__}: {failure}.")
    return None
