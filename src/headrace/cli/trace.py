"""`headrace trace APP EVENT_ID`: one event's way through the log, step by step."""

import json
import time
from typing import Any

import click

from headrace.cli.settings import LOG_OPTIONS, BadSetting, log_of, options
from headrace.declare.app import load_app
from headrace.declare.durations import duration_us
from headrace.tiles.finish import moment


@click.command()
@click.argument("app")
@click.argument("event_id")
@click.option(
    "--since", default="1d", show_default=True, metavar="DURATION", help="Look in what came in the last so long."
)
@options(LOG_OPTIONS)
@click.option("--json", "in_json", is_flag=True, help="As JSON.")
def trace(app: str, event_id: str, since: str, in_json: bool, **flags: Any) -> None:
    """The way of EVENT_ID, or of the record at a place such as payments-0@42, from its arrival to its label."""
    from headrace.watch.trace import Tracer

    broker = log_of(flags)
    since_us = time.time_ns() // 1000 - duration_us(since, "--since")
    ways = [*Tracer(load_app(app), broker, since_us).ways(event_id)]
    if not ways:
        raise BadSetting(f"No record of {event_id!r} came in the last {since}. Look further back: --since 7d.")
    if in_json:
        click.echo(json.dumps([[step._asdict() for step in way] for way in ways]))
    else:
        click.echo("\n\n".join("\n".join(_line(step, way[0].at_us) for step in way) for way in ways))


def _line(step: Any, began_us: int) -> str:
    after = f"+{(step.at_us - began_us) / 1000:,.0f} ms" if step.at_us != began_us else moment(step.at_us).isoformat()
    said = json.dumps(step.said, ensure_ascii=True)
    return f"{step.what:<12}{after:<34}{step.place}\n  {said}"
