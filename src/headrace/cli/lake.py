"""The lake of the running parts, as the settings have it."""

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
