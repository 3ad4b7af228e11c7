"""Resolves the versions that score for a model: loads them once there are some, and falls back if a champion fails."""

import asyncio
import logging
import time
from pathlib import Path

from headrace.declare.models.model import Model
from headrace.errors import HeadraceError
from headrace.models.online_learning.learner_replica import create_learner_replica
from headrace.models.versions.live_versions import LiveVersions, VersionWatcher
from headrace.models.versions.version_loader import LoadedVersion, load_version
from headrace.models.versions.version_store import VersionStore
from headrace.server.http.responses import ServiceUnavailable
from headrace.server.inference.prediction_log import PredictionLog

RETRY_SECONDS = 1.0
LOGGER = logging.getLogger("headrace.serve")


class ModelServingContext:
    """Where model versions are, which of them are live, the prediction log, and the broker for online updates."""

    def __init__(self, state: Path, prediction_log: PredictionLog, broker: str | None = None) -> None:
        self.prediction_log = prediction_log
        self._state, self._broker = state, broker
        self._resolvers: list[ModelResolver] = []

    def create_resolver(self, model: Model) -> "ModelResolver":
        """Create the resolver of a model; `stop` ends it."""
        self._resolvers.append(ModelResolver(model, self._state, self._broker))
        return self._resolvers[-1]

    async def start(self) -> None:
        """Load every model that can be loaded, so that the first request does not wait."""
        for resolver in self._resolvers:
            await resolver.load_if_due()

    def stop(self) -> None:
        """Stop watching for promotions."""
        for resolver in self._resolvers:
            resolver.stop()


class ModelResolver:
    """The live versions of one model; an app may be served before its model is trained."""

    def __init__(self, model: Model, state: Path, broker: str | None = None) -> None:
        self._model, self._state = model, state
        self._learner_replica = create_learner_replica(model, broker)
        self._version_watcher: VersionWatcher | None = None
        self._lock = asyncio.Lock()
        self._retry_at, self._missing_reason = 0.0, ""
        self._fallbacks: dict[str, LoadedVersion | None] = {}

    @property
    def current(self) -> LiveVersions | None:
        """The live versions, if they are loaded."""
        return None if self._version_watcher is None else self._version_watcher.live_versions

    async def resolve(self) -> LiveVersions:
        """The live versions, loaded on demand; raises ServiceUnavailable while there are none."""
        if self._version_watcher is None:
            await self.load_if_due()
        if self._version_watcher is None:
            raise ServiceUnavailable(self._missing_reason)
        return self._version_watcher.live_versions

    def stop(self) -> None:
        """Stop watching for promotions."""
        if self._version_watcher is not None:
            self._version_watcher.stop()
        if self._learner_replica is not None:
            self._learner_replica.stop()

    async def resolve_fallback(self, failed_version: LoadedVersion, reason: str) -> LoadedVersion | None:
        """The version before one that failed, if there is one; logs the failure once."""
        async with self._lock:
            if failed_version.version not in self._fallbacks:
                LOGGER.error("%s; falls back to the previous version, if there is one", reason)
                self._fallbacks[failed_version.version] = await asyncio.to_thread(self._load_previous, failed_version)
        return self._fallbacks[failed_version.version]

    async def load_if_due(self) -> None:
        """Load the live versions if they are not loaded, at most once a second."""
        async with self._lock:
            if self._version_watcher is not None or time.monotonic() < self._retry_at:
                return
            if self._learner_replica is not None:
                self._learner_replica.start()
            try:
                version_watcher = await asyncio.to_thread(
                    VersionWatcher.load, self._model, self._state, self._learner_replica
                )
            except HeadraceError as problem:
                self._missing_reason = str(problem)
                self._retry_at = time.monotonic() + RETRY_SECONDS
            else:
                version_watcher.start()
                self._version_watcher = version_watcher

    def _load_previous(self, failed_version: LoadedVersion) -> LoadedVersion | None:
        if self._model.train is None:
            return None
        try:
            version_roles = VersionStore(self._state, self._model.name).load_roles()
            earlier_versions = [version for version in version_roles.earlier if version != failed_version.version]
            return load_version(self._model, self._state, earlier_versions[-1]) if earlier_versions else None
        except HeadraceError as problem:
            LOGGER.error("%s", problem)
            return None
