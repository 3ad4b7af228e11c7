"""The lake of the running parts, as the settings have it."""

from collections.abc import Callable
from functools import partial
from typing import Any

from headrace.cli.run import broker_of
from headrace.cli.settings import Settings
from headrace.declare.app import App
from headrace.lake.lake import Lake, prepared
from headrace.lake.landing import landings_of


def lake_of(app: App, settings: Settings) -> Lake | None:
    """The lake of an app, unless it is switched off."""
    if settings.lake is None:
        return None
    return Lake(settings.lake, broker_of(settings), landings_of(app), settings.lake_every_s, settings.lake_retention)


def lake_writers(lake: Lake | None) -> list[Callable[[Any], Any]]:
    """What lands topics beside the queries, given their Spark session; nothing where the lake is off."""
    from headrace.lake.writer import LakeWriter

    return [] if lake is None else [partial(LakeWriter, lake=lake, tables=prepared(lake))]
