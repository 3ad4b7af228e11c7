"""How good models still are, told once a minute: what is lost of their cards' quality, and how many labels come."""

import logging
from collections.abc import Callable, Sequence
from pathlib import Path

from headrace.declare.alert import Watched
from headrace.declare.durations import UNITS_US
from headrace.declare.model import Model
from headrace.errors import HeadraceError
from headrace.evaluate.quality.lost import label_coverage, lost
from headrace.log.progress import QualityProgress
from headrace.score.versions import Versions
from headrace.watch.quality import Quality
from headrace.watch.values import Reading

LOGGER = logging.getLogger("headrace.alerts")
EVERY_US = UNITS_US["m"]
WINDOW_US = UNITS_US["d"]


class Judged:
    """Tells of each model with labels; alerts read it where everybody does, in /metrics."""

    def __init__(
        self, models: Sequence[Model], quality: Quality, state: Path, tell: Callable[[QualityProgress], None]
    ) -> None:
        self._quality, self._tell = quality, tell
        self._versions = {model.name: Versions(state, model.name) for model in models if model.labels is not None}
        self._told_us = 0

    def look(self, now_us: int) -> None:
        """Tell, where a minute has passed."""
        if now_us - self._told_us >= EVERY_US:
            self._told_us = now_us
            for name in self._versions:
                self._tell(self.progress(name, now_us))

    def read(self, watched: Watched, now_us: int) -> Reading | None:  # noqa: ARG002  # a protocol's
        """Nothing: the server says it."""
        return None

    def progress(self, model: str, now_us: int) -> QualityProgress:
        """What is known of a model's champion; of a declared file no card says how good it was."""
        table = self._quality.tables[model]
        if table.model.file is not None:
            due = self._quality.due(model, now_us, WINDOW_US)
            return QualityProgress(model, now_us, None, label_coverage(due))
        try:
            version = self._versions[model].champion().champion
            due = self._quality.due(model, now_us, WINDOW_US, version)
            share = None if version is None else lost(due, self._versions[model].card(version))
        except HeadraceError as problem:
            LOGGER.warning("The quality of %s cannot be told: %s", model, problem)
            return QualityProgress(model, now_us, None, None)
        return QualityProgress(model, now_us, share, label_coverage(due))
