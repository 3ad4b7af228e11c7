"""`headrace run APP PART`: one part of an app alone, against a given broker, store and Spark."""

import threading
from functools import partial
from typing import Any

import click

from headrace.declare.app import load_app
from headrace.runtime.configuration.click_options import command_settings
from headrace.runtime.configuration.settings_parser import parse_settings
from headrace.runtime.part_runner import LOGGER, NAMED_PART_RUNNERS, PART_RUNNERS, configure_logging, stop_on_signals
from headrace.storage.private_folder import make_private_folder


@click.command()
@click.argument("app")
@click.argument("part", type=click.Choice((*PART_RUNNERS, *NAMED_PART_RUNNERS)))
@command_settings("run")
def run(app: str, part: str, **flags: Any) -> None:
    """Run one part of APP alone; `up` starts those that an app needs."""
    from headrace.runtime.topic_claims import hold_part_topics

    settings = parse_settings(flags)
    configure_logging()
    if (warning := make_private_folder(settings.state)) is not None:
        LOGGER.warning("%s", warning)
    stop = stop_on_signals()
    if settings.limit_s is not None:
        threading.Timer(settings.limit_s, stop.set).start()
    runners = dict(PART_RUNNERS) | {name: partial(runner, app) for name, runner in NAMED_PART_RUNNERS.items()}
    loaded_app = load_app(app)
    with hold_part_topics(loaded_app, settings, part, stop):
        runners[part](loaded_app, settings, stop)
