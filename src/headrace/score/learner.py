"""A model that learns from each outcome: whatever has River's verbs, taught in the order of the log.

lesson       0 ──────────── 100,000 ──────────── 200,000 ──────────── 300,000
1st          ├── answers ─────┴─────── answers ────┤
2nd                           ├── learns ──────────┼────── answers ─────┤
3rd                                                ├── learns ──────────┼── answers …

What answers is made of the lessons since one generation before the last began, and of nothing else: never more than
two generations are taught to whoever starts, and everybody who has heard the same lessons answers the same.
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

from headrace.declare.model import Learn, Model
from headrace.declare.schema import Column, Kind
from headrace.errors import HeadraceError
from headrace.score.champions import Loaded
from headrace.score.lessons import GENERATION, PREFIX, Lesson, Page
from headrace.score.scorer import Scores

TRIED = 64
COPY_EVERY = 5_000
STUCK = 100
GREATEST = float(np.finfo(np.float32).max)
NOTHING_KNOWN = 0.5
LOGGER = logging.getLogger("headrace.score")
_ADDRESS = re.compile(r" at 0x[0-9a-f]+")

Features = dict[str, float | str]


class UnfitLearner(HeadraceError):
    """What a model's `learn=` returned cannot learn from its outcomes."""


class Pupil:
    """One learning model, and how it was some lessons ago: a lesson that breaks it is as if it had never been.

    What breaks it: learning it raises, or afterwards there is no number for its own vector. One that can learn from
    none of so many lessons in a row was broken before, and begins anew.
    """

    def __init__(self, make: Learn, is_class: bool) -> None:
        self._make, self._is_class, self.trouble = make, is_class, ""
        self._begin()

    def _begin(self) -> None:
        self._model, self._failures = self._make(), 0
        self._copy, self._since = copy.deepcopy(self._model), list[tuple[Features, Any]]()

    def score(self, features: Features) -> float:
        """The chance that it is true, or the number it expects."""
        if not self._is_class:
            return float(self._model.predict_one(features))
        chances = self._model.predict_proba_one(features)
        return float(chances.get(True, 0.0)) if chances else NOTHING_KNOWN

    def learn(self, features: Features, label: float) -> bool:
        """Learn one lesson; False where that is impossible, and nothing has changed but `trouble`."""
        lesson = features, bool(label) if self._is_class else label
        try:
            self._model.learn_one(*lesson)
            is_fit = math.isfinite(self.score(features))
            self.trouble = "it answers no number afterwards"
        except Exception as failure:  # noqa: BLE001 - whatever a model raises, it learns on from the next lesson
            is_fit, self.trouble = False, f"{type(failure).__name__}: {str(failure)[:200]}"
        if is_fit:
            self._failures = 0
            self._since.append(lesson)
        else:
            self._go_back()
        if not is_fit or len(self._since) == COPY_EVERY:
            self._copy, self._since = copy.deepcopy(self._model), []
        return is_fit

    def _go_back(self) -> None:
        self._failures += 1
        if self._failures == STUCK:
            self._begin()
            return
        self._model = copy.deepcopy(self._copy)
        for known in self._since:
            self._model.learn_one(*known)


class Learner:
    """The generations of a model's pupils; one thread teaches, others ask."""

    def __init__(self, model: Model, generation: int = GENERATION) -> None:
        self.columns: tuple[Column, ...] = model.vector.columns
        self.passed_over, self.trouble = 0, ""
        self._where, self._make, self._is_class = f"Model {model.name!r}", made_by(model), is_class(model)
        self._generation, self._lock = generation, threading.Lock()
        self._epoch, self._next, self._started = "", 0, 0
        self._pupils = [self._pupil()]
        self.loaded = Loaded(version_of(model), self)

    @property
    def heard(self) -> int:
        """The number of the next lesson."""
        return self._next

    def learn(self, page: Page) -> None:
        """Learn those lessons of a page that are new; those of another epoch are learned from the beginning."""
        if page.epoch != self._epoch:
            self._begin(page)
        elif page.first > self._next:
            LOGGER.warning("%s: its lessons %s to %s are gone", self._where, self._next, page.first - 1)
        for number, lesson in enumerate(page.lessons, page.first):
            if number >= self._next:
                self._turn(number)
                self._teach(lesson)
                self._next = number + 1

    def score_rows(self, rows: Sequence[Sequence[Any]], within_s: float | None = None) -> Scores:  # noqa: ARG002 - it ends
        """The score of each row; NaN where there is none."""
        with self._lock:
            pupil = self._pupils[0]
            return np.array([self._scored(pupil, row) for row in rows], np.float64)

    def _begin(self, page: Page) -> None:
        with self._lock:
            self._pupils = [self._pupil()]
        self._epoch, self._next, self._started = page.epoch, page.first, page.first // self._generation
        if page.first % self._generation:
            LOGGER.warning("%s: its lessons before %s are gone", self._where, page.first)

    def _turn(self, number: int) -> None:
        """Where a generation begins, so does a pupil; the one that began before it answers from now on."""
        if number // self._generation > self._started:
            self._started = number // self._generation
            with self._lock:
                self._pupils = [*self._pupils[-1:], self._pupil()]

    def _teach(self, lesson: Lesson) -> None:
        try:
            features = self._features([lesson.features[column.name] for column in self.columns])
        except (KeyError, TypeError, ValueError) as failure:  # served before the model read what it reads now
            self._pass_over(lesson, f"its vector is another: {failure!r}")
            return
        with self._lock:
            learned = [pupil.learn(features, lesson.label) for pupil in self._pupils]
        if not all(learned):
            self._pass_over(lesson, self._pupils[learned.index(False)].trouble)

    def _pass_over(self, lesson: Lesson, trouble: str) -> None:
        self.passed_over, self.trouble = self.passed_over + 1, trouble
        if self.passed_over == 1:
            said = "%s cannot learn from %s: %s. It and others like it are passed over"
            LOGGER.warning(said, self._where, lesson.event_id, trouble)

    def _scored(self, pupil: Pupil, row: Sequence[Any]) -> float:
        try:
            return pupil.score(self._features(row))
        except Exception as failure:  # noqa: BLE001 - whatever a model raises, others are scored
            LOGGER.warning("%s fails on %s: %s", self._where, row, failure)
            return math.nan

    def _pupil(self) -> Pupil:
        return Pupil(self._make, self._is_class)

    def _features(self, row: Sequence[Any]) -> Features:
        """A vector as River has it: what is not known, or beyond a float32 as for other models, is left out."""
        named = zip(self.columns, row, strict=True)
        return {
            column.name: value if column.kind is Kind.STRING else float(value)
            for column, value in named
            if value is not None and (column.kind is Kind.STRING or abs(value) <= GREATEST)
        }


def made_by(model: Model) -> Learn:
    """The function that makes a model's learner."""
    if model.learn is None:
        raise TypeError(f"{model.name} has no learn=")
    return model.learn


def is_class(model: Model) -> bool:
    """Whether what it learns is true or false."""
    return model.labels is not None and model.labels.task == "classification"


def version_of(model: Model) -> str:
    """The version of what a model learns: another function, settings or inputs are another one."""
    said = _ADDRESS.sub("", repr((made_by(model)(), model.vector.names)))
    return PREFIX + hashlib.sha256(said.encode()).hexdigest()[:8]


def learner_of(model: Model) -> Learner:
    """The learner of a model before its first lesson, once it has been tried."""
    where = f"Model {model.name!r}: learn="
    try:
        first, second = made_by(model)(), made_by(model)()
        copy.deepcopy(first)
    except Exception as failure:
        raise UnfitLearner(f"{where} raised {type(failure).__name__}: {str(failure)[:200]}") from failure
    verb = "predict_proba_one" if is_class(model) else "predict_one"
    if not all(hasattr(first, name) for name in ("learn_one", verb)):
        raise UnfitLearner(
            f"{where} returned {first!r:.200}. Return a new River model or pipeline that has learn_one and {verb}."
        )
    if first is second:
        raise UnfitLearner(f"{where} returns the same model each time. Make a new one in the function.")
    _require_alike(model, where)
    return Learner(model)


def _require_alike(model: Model, where: str) -> None:
    """Two that are taught the same must answer the same: each process has its own."""
    pair = Learner(model), Learner(model)
    names = [column.name for column in model.vector.columns]
    rows = [[_value(column, number) for column in model.vector.columns] for number in range(TRIED)]
    page = Page("a trial", 0, 0, 0, (0, 0), tuple(_lesson(number, names, row) for number, row in enumerate(rows)))
    for learner in pair:
        learner.learn(page)
        if learner.passed_over:
            raise UnfitLearner(
                f"{where} cannot learn from such as {rows[1]}, or where some of it is missing: {learner.trouble}. "
                "Return a model that can."
            )
    one, other = (learner.score_rows(rows) for learner in pair)
    if not np.array_equal(one, other):
        raise UnfitLearner(f"{where} learns another model from the same lessons each time. Give it a seed.")


def _lesson(number: int, names: Sequence[str], row: Sequence[Any]) -> Lesson:
    return Lesson(f"trial {number}", dict(zip(names, row, strict=True)), float(number % 2))


def _value(column: Column, number: int) -> Any:
    """Some value of a column, and now and then none."""
    if number % 7 == 0:
        return None
    found: Mapping[Kind, Any] = {Kind.STRING: "ab"[number % 2], Kind.BOOLEAN: number % 3 == 0, Kind.INTEGER: number}
    return found.get(column.kind, number * 0.37 % 5 - 2)
