"""`headrace quality APP MODEL`: model metrics, realised from labels and estimated from scores."""

import json
import time
from typing import Any

import click

from headrace.cli.commands.models.retrain import require_labels
from headrace.declare.app import load_app
from headrace.runtime.configuration.click_options import setting_options
from headrace.runtime.settings import broker_from_flags


@click.command()
@click.argument("app")
@click.argument("model")
@click.option("--window", default="1d", show_default=True, metavar="DURATION", help="The window of predictions.")
@click.option("--version", metavar="VERSION", help="The version, in any role; by default the champion of the time.")
@setting_options("broker", "broker_port")
@click.option("--json", "in_json", is_flag=True, help="As JSON.")
def quality(app: str, model: str, window: str, version: str | None, in_json: bool, **flags: Any) -> None:
    """Every metric of MODEL over a window of its predictions, realised and estimated; — where unknown."""
    from headrace.telemetry.values.quality_values import read_quality

    declared_model = load_app(app).model(model)
    require_labels(declared_model)
    broker = broker_from_flags(flags)
    metric_values = read_quality(broker, declared_model).read_all_metrics(
        declared_model, window, time.time_ns() // 1000, version
    )
    lines = [f"{name:<60}{'—' if value is None else f'{value:.4g}':>12}" for name, value in metric_values.items()]
    click.echo(json.dumps(metric_values) if in_json else "\n".join(lines))
