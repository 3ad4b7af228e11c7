"""What a model learns, kept up to date from the log: every process that scores has a learner of its own.

fraud.lessons ──▶ learner ──▶ scores, once everything that was there has been learned
"""

import logging

from headrace.declare.models.model import Model
from headrace.errors import HeadraceError
from headrace.kafka.consumers.tailing_consumer import TailingConsumer
from headrace.kafka.record import ConsumerRecord
from headrace.models.online_learning.learner import create_learner
from headrace.models.online_learning.online_updates import decode_page
from headrace.models.versions.version_loader import LoadedVersion

LOGGER = logging.getLogger("headrace.score")


class LearnerNotReadyError(HeadraceError):
    """A learner that has not learned all there was when it started."""


class LearnerReplica:
    """A model's learner and its lessons, followed from `start` to `stop`."""

    def __init__(self, model: Model, broker: str) -> None:
        self._model, self._learner = model, create_learner(model)
        self._consumer = TailingConsumer(broker, [model.lessons], self._apply_records)
        self._has_started = False

    @property
    def is_ready(self) -> bool:
        """Whether everything that was there at the start has been learned."""
        return self._consumer.is_caught_up

    @property
    def loaded_version(self) -> LoadedVersion:
        """The learner; raises StillLearning before it is ready."""
        if not self.is_ready:
            progress = self._consumer.error or f"{self._learner.next_update:,} lessons so far"
            raise LearnerNotReadyError(f"Model {self._model.name!r} still learns what there was before: {progress}.")
        return self._learner.loaded_version

    def start(self) -> None:
        """Follow from now on; once is enough."""
        if not self._has_started:
            self._has_started = True
            self._consumer.start()

    def stop(self) -> None:
        self._consumer.stop()

    def _apply_records(self, records: list[ConsumerRecord]) -> None:
        for record in records:
            page = decode_page(record.value)
            if page is None:
                LOGGER.warning("%s is no page of lessons; it is passed over", record.location)
            else:
                self._learner.learn(page)


def create_learner_replica(model: Model, broker: str | None) -> LearnerReplica | None:
    """What a model learns from a broker's log, if it does."""
    return None if model.learn is None or broker is None else LearnerReplica(model, broker)
