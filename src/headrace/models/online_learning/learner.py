"""Online learning: a model with River's methods is updated by each outcome, in the order of the log.

update       0 ──────────── 100,000 ──────────── 200,000 ──────────── 300,000
1st          ├── answers ─────┴─────── answers ────┤
2nd                           ├── learns ──────────┼────── answers ─────┤
3rd                                                ├── learns ──────────┼── answers …

The serving generation has learned from the updates since the start of the previous generation, and from nothing else:
a restart needs at most two generations, and all processes that have read the same updates give the same scores.
"""

import copy
import hashlib
import logging
import math
import re
import threading
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from headrace.declare.models.model import LearnerFactory, Model
from headrace.declare.streams.schema import Column, Kind
from headrace.errors import HeadraceError
from headrace.models.inference.scorer import Scores
from headrace.models.online_learning.online_updates import GENERATION_SIZE, VERSION_PREFIX, OnlineUpdate, UpdatePage
from headrace.models.versions.version_loader import LoadedVersion

TRIAL_ROWS = 64
SNAPSHOT_EVERY = 5_000
MAX_CONSECUTIVE_FAILURES = 100
MAX_FLOAT32 = float(np.finfo(np.float32).max)
DEFAULT_PROBABILITY = 0.5
LOGGER = logging.getLogger("headrace.score")
_MEMORY_ADDRESS = re.compile(r" at 0x[0-9a-f]+")

RiverFeatures = dict[str, float | str]


class InvalidLearnerError(HeadraceError):
    """The object that a model's `learn=` returned cannot learn from outcomes."""


class OnlineModel:
    """One online model and a snapshot of it: an update that breaks it is undone.

    An update breaks it by raising, or when the model then has no number for the update's own vector. After too many
    failures in a row the model was broken before, and is created again.
    """

    def __init__(self, make_model: LearnerFactory, is_classifier: bool) -> None:
        self._make_model, self._is_classifier, self.error = make_model, is_classifier, ""
        self._reset()

    def _reset(self) -> None:
        self._model, self._failures = self._make_model(), 0
        self._snapshot, self._updates_since_snapshot = copy.deepcopy(self._model), list[tuple[RiverFeatures, Any]]()

    def score(self, features: RiverFeatures) -> float:
        """The probability that the label is true, or the expected number."""
        if not self._is_classifier:
            return float(self._model.predict_one(features))
        probabilities = self._model.predict_proba_one(features)
        return float(probabilities.get(True, 0.0)) if probabilities else DEFAULT_PROBABILITY

    def learn(self, features: RiverFeatures, label: float) -> bool:
        """Apply one update; False where that fails, and only `error` has changed."""
        update = features, bool(label) if self._is_classifier else label
        try:
            self._model.learn_one(*update)
            is_valid = math.isfinite(self.score(features))
            self.error = "it returns no number afterwards"
        except Exception as failure:  # noqa: BLE001 - after any error of a model the next update is applied
            is_valid, self.error = False, f"{type(failure).__name__}: {str(failure)[:200]}"
        if is_valid:
            self._failures = 0
            self._updates_since_snapshot.append(update)
        else:
            self._restore_snapshot()
        if not is_valid or len(self._updates_since_snapshot) == SNAPSHOT_EVERY:
            self._snapshot, self._updates_since_snapshot = copy.deepcopy(self._model), []
        return is_valid

    def _restore_snapshot(self) -> None:
        self._failures += 1
        if self._failures == MAX_CONSECUTIVE_FAILURES:
            self._reset()
            return
        self._model = copy.deepcopy(self._snapshot)
        for update in self._updates_since_snapshot:
            self._model.learn_one(*update)


class Learner:
    """The generations of an online model; one thread applies updates, others score."""

    def __init__(self, model: Model, generation_size: int = GENERATION_SIZE) -> None:
        self.columns: tuple[Column, ...] = model.vector.columns
        self.skipped_count, self.error = 0, ""
        self._where, self._make_model, self._is_classifier = (
            f"Model {model.name!r}",
            require_learn_function(model),
            is_classifier(model),
        )
        self._generation_size, self._lock = generation_size, threading.Lock()
        self._epoch, self._next_update, self._newest_generation = "", 0, 0
        self._models = [self._new_model()]
        self.loaded_version = LoadedVersion(learner_version(model), self)

    @property
    def next_update(self) -> int:
        """The number of the next update."""
        return self._next_update

    def learn(self, page: UpdatePage) -> None:
        """Apply the new updates of a page; those of another epoch start from the beginning."""
        if page.epoch != self._epoch:
            self._restart(page)
        elif page.first > self._next_update:
            LOGGER.warning(
                "%s: updates %s to %s are missing from the log", self._where, self._next_update, page.first - 1
            )
        for number, update in enumerate(page.lessons, page.first):
            if number >= self._next_update:
                self._advance_generation(number)
                self._apply_update(update)
                self._next_update = number + 1

    def score_rows(self, rows: Sequence[Sequence[Any]], timeout_s: float | None = None) -> Scores:  # noqa: ARG002 - it ends
        """The score of each row; NaN where there is none."""
        with self._lock:
            online_model = self._models[0]
            return np.array([self._score_row(online_model, row) for row in rows], np.float64)

    def _restart(self, page: UpdatePage) -> None:
        with self._lock:
            self._models = [self._new_model()]
        self._epoch, self._next_update, self._newest_generation = (
            page.epoch,
            page.first,
            page.first // self._generation_size,
        )
        if page.first % self._generation_size:
            LOGGER.warning("%s: updates before %s are missing from the log", self._where, page.first)

    def _advance_generation(self, number: int) -> None:
        """Start a model at the start of a generation; the one of the generation before serves from now on."""
        if number // self._generation_size > self._newest_generation:
            self._newest_generation = number // self._generation_size
            with self._lock:
                self._models = [*self._models[-1:], self._new_model()]

    def _apply_update(self, update: OnlineUpdate) -> None:
        try:
            features = self._to_river_features([update.features[column.name] for column in self.columns])
        except (KeyError, TypeError, ValueError) as failure:  # served before the model's inputs changed
            self._skip_update(update, f"its vector has other inputs: {failure!r}")
            return
        with self._lock:
            results = [online_model.learn(features, update.label) for online_model in self._models]
        if not all(results):
            self._skip_update(update, self._models[results.index(False)].error)

    def _skip_update(self, update: OnlineUpdate, error: str) -> None:
        self.skipped_count, self.error = self.skipped_count + 1, error
        if self.skipped_count == 1:
            message = "%s cannot learn from %s: %s. It skips this and similar updates"
            LOGGER.warning(message, self._where, update.event_id, error)

    def _score_row(self, online_model: OnlineModel, row: Sequence[Any]) -> float:
        try:
            return online_model.score(self._to_river_features(row))
        except Exception as failure:  # noqa: BLE001 - any error of a model concerns only this row
            LOGGER.warning("%s failed on %s: %s", self._where, row, failure)
            return math.nan

    def _new_model(self) -> OnlineModel:
        return OnlineModel(self._make_model, self._is_classifier)

    def _to_river_features(self, row: Sequence[Any]) -> RiverFeatures:
        """A vector in River's format, without unknown values and those beyond a float32, as for other models."""
        columns_with_values = zip(self.columns, row, strict=True)
        return {
            column.name: value if column.kind is Kind.STRING else float(value)
            for column, value in columns_with_values
            if value is not None and (column.kind is Kind.STRING or abs(value) <= MAX_FLOAT32)
        }


def require_learn_function(model: Model) -> LearnerFactory:
    """The function that creates a model's learner."""
    if model.learn is None:
        raise TypeError(f"{model.name} has no learn=")
    return model.learn


def is_classifier(model: Model) -> bool:
    """Whether its labels are true or false."""
    return model.labels is not None and model.labels.task == "classification"


def learner_version(model: Model) -> str:
    """The version of an online model: it changes with its function, settings and inputs."""
    description = _MEMORY_ADDRESS.sub("", repr((require_learn_function(model)(), model.vector.names)))
    return VERSION_PREFIX + hashlib.sha256(description.encode()).hexdigest()[:8]


def create_learner(model: Model) -> Learner:
    """The learner of a model before its first update, after a trial."""
    where = f"Model {model.name!r}: learn="
    try:
        first, second = require_learn_function(model)(), require_learn_function(model)()
        copy.deepcopy(first)
    except Exception as failure:
        raise InvalidLearnerError(f"{where} raised {type(failure).__name__}: {str(failure)[:200]}") from failure
    predict_method = "predict_proba_one" if is_classifier(model) else "predict_one"
    if not all(hasattr(first, name) for name in ("learn_one", predict_method)):
        raise InvalidLearnerError(
            f"{where} returned {first!r:.200}. Return a new River model or pipeline that has learn_one and "
            f"{predict_method}."
        )
    if first is second:
        raise InvalidLearnerError(f"{where} returns the same model each time. Make a new one in the function.")
    _require_deterministic(model, where)
    return Learner(model)


def _require_deterministic(model: Model, where: str) -> None:
    """Two models with the same updates must give the same scores, since each process has its own."""
    learners = Learner(model), Learner(model)
    names = [column.name for column in model.vector.columns]
    rows = [[_trial_value(column, number) for column in model.vector.columns] for number in range(TRIAL_ROWS)]
    page = UpdatePage(
        "a trial", 0, 0, 0, (0, 0), tuple(_trial_update(number, names, row) for number, row in enumerate(rows))
    )
    for learner in learners:
        learner.learn(page)
        if learner.skipped_count:
            raise InvalidLearnerError(
                f"{where} cannot learn from such as {rows[1]}, or where some of it is missing: {learner.error}. "
                "Return a model that can."
            )
    first_scores, second_scores = (learner.score_rows(rows) for learner in learners)
    if not np.array_equal(first_scores, second_scores):
        raise InvalidLearnerError(f"{where} learns another model from the same updates each time. Give it a seed.")


def _trial_update(number: int, names: Sequence[str], row: Sequence[Any]) -> OnlineUpdate:
    return OnlineUpdate(f"trial {number}", dict(zip(names, row, strict=True)), float(number % 2))


def _trial_value(column: Column, number: int) -> Any:
    """A value of a column, and now and then null."""
    if number % 7 == 0:
        return None
    values_by_kind: Mapping[Kind, Any] = {
        Kind.STRING: "ab"[number % 2],
        Kind.BOOLEAN: number % 3 == 0,
        Kind.INTEGER: number,
    }
    return values_by_kind.get(column.kind, number * 0.37 % 5 - 2)
