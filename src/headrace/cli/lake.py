"""What lands beside the queries, in a Spark session of its own: the lake's tables, and the outcomes of models."""

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

from headrace.cli.run import broker_of
from headrace.cli.settings import Settings
from headrace.declare.app import App
from headrace.lake.lake import Lake
from headrace.lake.landing import landings_of


def lake_of(app: App, settings: Settings) -> Lake | None:
    """The lake of an app, unless it is switched off."""
    if settings.lake is None:
        return None
    return Lake(settings.lake, broker_of(settings), landings_of(app), settings.lake_every_s, settings.lake_retention)


def outcomes(app: App, lake: Lake, state: Path) -> list[Callable[[Any], Any]]:
    """What joins predictions with labels, given a Spark session; nothing where no model has labels."""
    from headrace.evaluate.run import Outcomes, Place

    if all(model.labels is None for model in app.models):
        return []
    return [partial(Outcomes, app=app, place=Place(lake, state))]
