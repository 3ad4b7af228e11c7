"""Who scores for a model: its line-up, looked for until there is one, and the version before a champion that fails."""

import asyncio
import logging
import time
from pathlib import Path

from headrace.declare.model import Model
from headrace.errors import HeadraceError
from headrace.score.champions import Loaded, load_version
from headrace.score.learning import learning_of
from headrace.score.lineup import Lineup, Standing
from headrace.score.versions import Versions
from headrace.serve.answers import Unavailable
from headrace.serve.noted import PredictionLog

LOOK_SECONDS = 1.0
LOGGER = logging.getLogger("headrace.serve")


class Scoring:
    """Where the versions of models are, who of them scores, who writes down what they said; the log they learn from."""

    def __init__(self, state: Path, log: PredictionLog, broker: str | None = None) -> None:
        self.log = log
        self._state, self._broker = state, broker
        self._followed: list[Contenders] = []

    def contenders(self, model: Model) -> "Contenders":
        """Who scores for a model, from now until `stop`."""
        self._followed.append(Contenders(model, self._state, self._broker))
        return self._followed[-1]

    async def start(self) -> None:
        """Load every model that can be: the first to ask does not wait for it."""
        for one in self._followed:
            await one.look()

    def stop(self) -> None:
        """Look for promotions no more."""
        for one in self._followed:
            one.stop()


class Contenders:
    """The versions of one model; an app may be served before its model is trained."""

    def __init__(self, model: Model, state: Path, broker: str | None = None) -> None:
        self._model, self._state = model, state
        self._learning = learning_of(model, broker)
        self._lineup: Lineup | None = None
        self._looking = asyncio.Lock()
        self._look_after, self._missing = 0.0, ""
        self._earlier: dict[str, Loaded | None] = {}

    @property
    def now(self) -> Standing | None:
        """Who scores now, if anybody does."""
        return None if self._lineup is None else self._lineup.standing

    async def standing(self) -> Standing:
        """Who scores, looked for where nobody does; raises Unavailable while nobody can."""
        if self._lineup is None:
            await self.look()
        if self._lineup is None:
            raise Unavailable(self._missing)
        return self._lineup.standing

    def stop(self) -> None:
        """Look for promotions no more."""
        if self._lineup is not None:
            self._lineup.stop()
        if self._learning is not None:
            self._learning.stop()

    async def earlier(self, failed: Loaded, why: str) -> Loaded | None:
        """The version before one that failed, if there is one; that it failed is said once."""
        async with self._looking:
            if failed.version not in self._earlier:
                LOGGER.error("%s; the version before scores what it fails on, if there is one", why)
                self._earlier[failed.version] = await asyncio.to_thread(self._load_before, failed)
        return self._earlier[failed.version]

    async def look(self) -> None:
        """Load the line-up if it is not loaded, at most once a second."""
        async with self._looking:
            if self._lineup is not None or time.monotonic() < self._look_after:
                return
            if self._learning is not None:
                self._learning.start()
            try:
                lineup = await asyncio.to_thread(Lineup.of, self._model, self._state, self._learning)
            except HeadraceError as problem:
                self._missing = str(problem)
                self._look_after = time.monotonic() + LOOK_SECONDS
            else:
                lineup.start()
                self._lineup = lineup

    def _load_before(self, failed: Loaded) -> Loaded | None:
        if self._model.train is None:
            return None
        try:
            champions = Versions(self._state, self._model.name).champion()
            before = [version for version in champions.earlier if version != failed.version]
            return load_version(self._model, self._state, before[-1]) if before else None
        except HeadraceError as problem:
            LOGGER.error("%s", problem)
            return None
