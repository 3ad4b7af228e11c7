"""`headrace trace APP EVENT_ID`: the path of one event through the topics, step by step."""

import json
import time
from typing import Any

import click

from headrace.declare.app import load_app
from headrace.declare.durations import duration_us
from headrace.runtime.configuration.click_options import setting_options
from headrace.runtime.settings import BadSetting, broker_from_flags
from headrace.tiles.finish import to_datetime


@click.command()
@click.argument("app")
@click.argument("event_id")
@click.option(
    "--since", default="1d", show_default=True, metavar="DURATION", help="Search records of this last duration."
)
@setting_options("broker", "broker_port")
@click.option("--json", "in_json", is_flag=True, help="As JSON.")
def trace(app: str, event_id: str, since: str, in_json: bool, **flags: Any) -> None:
    """The path of EVENT_ID, or of the record at an offset such as payments-0@42, from its arrival to its label."""
    from headrace.telemetry.event_tracer import EventTracer

    broker = broker_from_flags(flags)
    since_us = time.time_ns() // 1000 - duration_us(since, "--since")
    traces = [*EventTracer(load_app(app), broker, since_us).trace_event(event_id)]
    if not traces:
        raise BadSetting(f"No record of {event_id!r} arrived in the last {since}. Search further back: --since 7d.")
    if in_json:
        click.echo(json.dumps([[step._asdict() for step in steps] for steps in traces]))
    else:
        click.echo("\n\n".join("\n".join(_format_step(step, steps[0].at_us) for step in steps) for steps in traces))


def _format_step(step: Any, started_us: int) -> str:
    elapsed = (
        f"+{(step.at_us - started_us) / 1000:,.0f} ms"
        if step.at_us != started_us
        else to_datetime(step.at_us).isoformat()
    )
    details = json.dumps(step.said, ensure_ascii=True)
    return f"{step.what:<12}{elapsed:<34}{step.place}\n  {details}"
