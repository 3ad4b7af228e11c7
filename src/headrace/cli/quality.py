"""`headrace quality APP MODEL`: how good a model is, by the labels that have come, and by its scores before."""

import json
import time
from typing import Any

import click

from headrace.cli.retrain import labels_of
from headrace.cli.settings import LOG_OPTIONS, log_of, options
from headrace.declare.app import load_app


@click.command()
@click.argument("app")
@click.argument("model")
@click.option("--window", default="1d", show_default=True, metavar="DURATION", help="Of the predictions of so long.")
@click.option("--version", metavar="VERSION", help="Of this version, in whatever role; else of whoever was champion.")
@options(LOG_OPTIONS)
@click.option("--json", "in_json", is_flag=True, help="As JSON.")
def quality(app: str, model: str, window: str, version: str | None, in_json: bool, **flags: Any) -> None:
    """Every metric of MODEL over a window of its predictions, realised and estimated; — where nothing is known."""
    from headrace.watch.quality import read_quality

    declared = load_app(app).model(model)
    labels_of(declared)
    broker = log_of(flags)
    found = read_quality(broker, declared).every(declared, window, time.time_ns() // 1000, version)
    lines = [f"{name:<60}{'—' if value is None else f'{value:.4g}':>12}" for name, value in found.items()]
    click.echo(json.dumps(found) if in_json else "\n".join(lines))
