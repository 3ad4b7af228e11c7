"""What a model learns, kept up to date from the log: every process that scores has a learner of its own.

fraud.lessons ──▶ learner ──▶ scores, once everything that was there has been learned
"""

import logging

from headrace.declare.model import Model
from headrace.errors import HeadraceError
from headrace.log.follow import Follower
from headrace.log.records import Record
from headrace.score.champions import Loaded
from headrace.score.learner import learner_of
from headrace.score.lessons import decode_page

LOGGER = logging.getLogger("headrace.score")


class StillLearning(HeadraceError):
    """A learner that has not learned all there was when it started."""


class Learning:
    """A model's learner and its lessons, followed from `start` to `stop`."""

    def __init__(self, model: Model, broker: str) -> None:
        self._model, self._learner = model, learner_of(model)
        self._follower = Follower(broker, [model.lessons], self._hear)
        self._has_started = False

    @property
    def is_ready(self) -> bool:
        """Whether everything that was there at the start has been learned."""
        return self._follower.caught_up

    @property
    def loaded(self) -> Loaded:
        """The learner; raises StillLearning before it is ready."""
        if not self.is_ready:
            left = self._follower.trouble or f"{self._learner.heard:,} lessons so far"
            raise StillLearning(f"Model {self._model.name!r} still learns what there was before: {left}.")
        return self._learner.loaded

    def start(self) -> None:
        """Follow from now on; once is enough."""
        if not self._has_started:
            self._has_started = True
            self._follower.start()

    def stop(self) -> None:
        self._follower.stop()

    def _hear(self, records: list[Record]) -> None:
        for record in records:
            page = decode_page(record.value)
            if page is None:
                LOGGER.warning("%s is no page of lessons; it is passed over", record.place)
            else:
                self._learner.learn(page)


def learning_of(model: Model, broker: str | None) -> Learning | None:
    """What a model learns from a broker's log, if it does."""
    return None if model.learn is None or broker is None else Learning(model, broker)
