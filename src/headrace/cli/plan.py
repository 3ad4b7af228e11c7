"""`headrace plan APP`: what would run, and what has changed since the last `up`."""

import json
from pathlib import Path

import click

from headrace.declare.app import load_app
from headrace.stream.plan import as_json, as_text, plan_app


@click.command()
@click.argument("app")
@click.option("--state", default=".headrace", show_default=True, metavar="DIR", help="Where data and checkpoints live.")
@click.option("--json", "in_json", is_flag=True, help="As JSON.")
def plan(app: str, state: str, in_json: bool) -> None:
    """Show what would run for APP, and what a changed declaration does to its state; exit 1 where it is refused."""
    planned = plan_app(load_app(app), Path(state))
    click.echo(json.dumps(as_json(planned), indent=2) if in_json else as_text(planned))
    if any(stream.refused for stream in planned):
        raise SystemExit(1)
