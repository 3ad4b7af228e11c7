"""What lands beside the queries, in a process of its own: the lake's tables, the outcomes and the drift of models."""

import logging
import os
import threading
import time
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from headrace.cli.run import broker_of
from headrace.cli.settings import Settings
from headrace.declare.app import App
from headrace.lake.lake import Lake
from headrace.lake.landing import Landing, landings_of
from headrace.local.polite import give_way
from headrace.stream.operations import first_offsets

if TYPE_CHECKING:
    from headrace.evaluate.evaluations import Evaluations, Setup
    from headrace.evaluate.lasting import Together

LOGGER = logging.getLogger("headrace.lake")
PATIENCE_SECONDS = 180.0  # with what does not begin: it may wait for events


def lake_of(app: App, settings: Settings) -> Lake | None:
    """The lake of an app, unless it is switched off."""
    if settings.lake is None:
        return None
    return Lake(
        settings.lake,
        broker_of(settings),
        landings_of(app),
        settings.lake_every_s,
        settings.lake_retention,
        settings.lake_format,
        first_offsets(settings.state),
    )


def missing_outcomes(app: App, settings: Settings) -> list[str]:
    """What is not known of models without a lake, a sentence each."""
    judged = [] if settings.lake is not None else [model for model in app.models if model.labels is not None]
    return [
        f"{model.name} has labels, and with --lake off nothing joins them: no outcomes, no quality, no retraining"
        for model in judged
    ]


def tables_of(app: App) -> list[Landing]:
    """Every table that the lake of an app will have, those of outcomes and drift among them."""
    from headrace.evaluate.book import outcomes_table, quality_table
    from headrace.evaluate.compare import compared
    from headrace.evaluate.vectors import drift_table

    judged = [table(model) for model in app.models if model.labels for table in (outcomes_table, quality_table)]
    return [*landings_of(app), *judged, *map(drift_table, compared(app))]


class Politeness:
    """Gives way to the other processes once what works beside the lake has begun, for as long as the lake keeps up.

    A process cannot take that back. One that falls far behind ends, and whoever started it starts it again: then with
    a backlog, which it lands before it gives way.
    """

    def __init__(self, stop: threading.Event) -> None:
        self.spark: int | None = None
        self.beside: Sequence[Together | Evaluations] = ()
        self._stop, self._gives_way, self._until = stop, False, time.monotonic() + PATIENCE_SECONDS

    def kept_up(self) -> None:
        if not self._gives_way and (all(one.have_begun for one in self.beside) or time.monotonic() > self._until):
            self._gives_way = True
            give_way(os.getpid(), *([] if self.spark is None else [self.spark]))

    def fell_behind(self, left: int) -> None:
        if self._gives_way:
            LOGGER.warning("%s records wait for the lake, which gives way to others: it is started again", left)
            self._stop.set()


def evaluations_of(spark: Any, app: App, lake: Lake, state: Path) -> "list[Setup]":
    """What joins predictions with labels, and what compares served vectors with those models were trained on."""
    from headrace.evaluate import compare, join
    from headrace.evaluate.compare import comparison_setups
    from headrace.evaluate.run import outcome_setups

    return [
        *outcome_setups(spark, app, join.Place(lake, state)),
        *comparison_setups(app, compare.Place(lake, state)),
    ]
