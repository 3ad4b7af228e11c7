"""Replicas of an online model: every process that scores keeps its own up to date from the log.

fraud.lessons ──▶ learner ──▶ scores, once all existing updates are applied
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
    """A learner that has not applied all updates that existed at its start."""


class LearnerReplica:
    """A model's learner, which follows its updates from `start` to `stop`."""

    def __init__(self, model: Model, broker: str) -> None:
        self._model, self._learner = model, create_learner(model)
        self._consumer = TailingConsumer(broker, [model.lessons], self._apply_records)
        self._has_started = False

    @property
    def is_ready(self) -> bool:
        """Whether all updates that existed at the start are applied."""
        return self._consumer.is_caught_up

    @property
    def loaded_version(self) -> LoadedVersion:
        """The learner; raises LearnerNotReadyError before it is ready."""
        if not self.is_ready:
            progress = self._consumer.error or f"{self._learner.next_update:,} updates so far"
            raise LearnerNotReadyError(f"Model {self._model.name!r} still applies earlier updates: {progress}.")
        return self._learner.loaded_version

    def start(self) -> None:
        """Start following; further calls do nothing."""
        if not self._has_started:
            self._has_started = True
            self._consumer.start()

    def stop(self) -> None:
        self._consumer.stop()

    def _apply_records(self, records: list[ConsumerRecord]) -> None:
        for record in records:
            page = decode_page(record.value)
            if page is None:
                LOGGER.warning("Skipped %s: it is not a page of updates", record.location)
            else:
                self._learner.learn(page)


def create_learner_replica(model: Model, broker: str | None) -> LearnerReplica | None:
    """The replica of a model with online learning; None for other models."""
    return None if model.learn is None or broker is None else LearnerReplica(model, broker)
