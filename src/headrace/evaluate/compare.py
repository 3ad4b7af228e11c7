"""Compares what every model of an app is served with what it was trained on, beside the lake: minute by minute."""

import logging
import time
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from headrace.declare.app import App
from headrace.declare.model import Model
from headrace.declare.names import gold_table, query_name
from headrace.errors import HeadraceError
from headrace.evaluate.drift.layout import Layout
from headrace.evaluate.drift.look import Look, look_at, policy_of, row_of
from headrace.evaluate.drift.ranking import importance_of
from headrace.evaluate.drift.window import Rows
from headrace.evaluate.errors import Errors, is_followed
from headrace.evaluate.evaluations import Setup
from headrace.evaluate.lasting import Lasting, Together
from headrace.evaluate.vectors import RECORDS_A_STEP, VectorBook
from headrace.lake.care import Care, Caretaker
from headrace.lake.failure_state import FailureState
from headrace.lake.lake import Lake
from headrace.log.produce import Producer
from headrace.log.progress import DriftProgress, report
from headrace.score.versions import Versions

LOGGER = logging.getLogger("headrace.evaluate")
EVERY_SECONDS = 60.0
RANKED_AT_MOST = 20
COLUMNS_AT_MOST = 100
NOTHING = Look(0, {}, {}, ())


@dataclass(frozen=True)
class Place:
    """Where served vectors are counted: the lake, the folder of models, how often, and how many records at once."""

    lake: Lake
    state: Path
    every_seconds: float = EVERY_SECONDS
    records_a_step: int = RECORDS_A_STEP


def compared(app: App) -> list[Model]:
    """The models whose versions say what they were trained on."""
    return [model for model in app.models if model.train is not None]


def comparison_setups(app: App, place: Place) -> list[Setup]:
    """How each model that is trained is compared; a declared file, or what learns alone, has no card."""
    return [
        Setup(
            query_name(model.name, "drift"),
            partial(_make_comparison, model, place),
            partial(drift_not_set_up, model),
        )
        for model in compared(app)
    ]


def _make_comparison(model: Model, place: Place) -> Together:
    one = Comparison(model, place)
    return Together([one], Caretaker([one.book.folder], Care(place.lake.retention), Producer(place.lake.broker)))


def drift_not_set_up(model: Model, failure: FailureState) -> DriftProgress:
    """What is told of a model whose comparison could not even be set up: since when, and why."""
    return DriftProgress(
        compared=model.name,
        at_us=_clock_us(),
        version=None,
        window_us=model.drift.window_us,
        rows=0,
        multiple=None,
        columns={},
        statistics={},
        ranked=[],
        fates={},
        lag=0,
        down_since_us=failure.down_since_us,
        error=failure.error,
    )


class Comparison(Lasting):
    """The comparison of one model; one that fails begins again with what its table has."""

    def __init__(self, model: Model, place: Place) -> None:
        super().__init__(query_name(model.name, "drift"), place.every_seconds)
        self.model, self._every_s = model, place.every_seconds
        self.book = VectorBook(place.lake.folder, model, place.state, place.lake.broker, place.records_a_step)
        outcomes = place.lake.folder / gold_table(model.name, "outcomes")
        self._errors = Errors(outcomes, model) if is_followed(model) else None
        self._versions = Versions(place.state, model.name)
        self._producer = Producer(place.lake.broker)

    def _run(self) -> None:
        self.book.open(_clock_us())
        looked, pause_s = 0.0, 0.0
        while not self._stopped.wait(pause_s):
            left = self.book.step(_clock_us())
            pause_s = 0.0 if left else self._every_s
            if not left or time.monotonic() > looked + self._every_s:
                looked = time.monotonic()
                self._follow_errors()
                self._went_on()
                report(self._producer, self.look(_clock_us(), left))

    def _report_failure(self) -> None:
        report(self._producer, self.look(_clock_us()))

    def _follow_errors(self) -> None:
        while self._errors is not None and self._errors.look() and not self._stopped.is_set():
            pass

    def look(self, clock_us: int, left: int = 0) -> DriftProgress:
        """What the window says of the champion now."""
        now_us = self.book.now_us(clock_us)
        self.book.forget(now_us)
        version = self._champion()
        window = self.book.windows.get(version or "")
        rows = {} if window is None else window.at(now_us)
        look = NOTHING if window is None or version is None else self._looked(window.layout, version, rows)
        return DriftProgress(
            compared=self.model.name,
            at_us=clock_us,
            version=version,
            window_us=self.model.drift.window_us,
            rows=look.rows,
            multiple=look.multiple,
            columns=_farthest(look),
            statistics={name: dict(look.statistics.get(name, {})) for name in _farthest(look)},
            ranked=[row_of(one, rows) for one in look.drifted[:RANKED_AT_MOST]],
            fates=dict(self.book.fates),
            lag=left,
            error_share=None if self._errors is None else self._errors.share(version),
            error_changes={} if self._errors is None else dict(self._errors.told),
            down_since_us=self._failure.down_since_us,
            error=self._failure.error,
        )

    def _looked(self, layout: Layout, version: str, rows: Rows) -> Look:
        importance = importance_of(self._versions.card(version))
        return look_at(layout, rows, policy_of(self.model.drift), importance)

    def _champion(self) -> str | None:
        """The version that is compared."""
        try:
            return self._versions.champion().champion
        except HeadraceError as problem:
            LOGGER.warning("%s", problem)
            return None


def _farthest(look: Look) -> dict[str, float]:
    """The multiples of columns, of as many as one would want to store: the greatest."""
    names: Sequence[str] = sorted(look.multiples, key=lambda name: -look.multiples[name])[:COLUMNS_AT_MOST]
    return {name: look.multiples[name] for name in names}


def _clock_us() -> int:
    return time.time_ns() // 1000
