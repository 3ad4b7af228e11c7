"""`headrace savepoint APP NAME|ls`: keep what every query has, to go back to with `up --from-savepoint NAME`."""

import json
from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

import click

from headrace.cli.settings import Settings
from headrace.declare.app import load_app

if TYPE_CHECKING:
    from headrace.stream.savepoints import Savepoint


@click.command()
@click.argument("app")
@click.argument("name")
@click.option("--state", default=".headrace", show_default=True, metavar="DIR", help="Where checkpoints live.")
@click.option("--json", "in_json", is_flag=True, help="As JSON.")
def savepoint(app: str, name: str, state: str, in_json: bool) -> None:
    """Keep the state of APP, running or not, as NAME; or ls those there are."""
    from headrace.stream.savepoints import make, savepoints

    load_app(app)
    found = savepoints(Path(state)) if name == "ls" else [make(Path(state), name)]
    if in_json:
        click.echo(json.dumps([asdict(one) for one in found]))
    else:
        click.echo("\n".join(line for one in found for line in _lines(one)) or "No savepoints.")


def _lines(one: "Savepoint") -> list[str]:
    made = datetime.fromtimestamp(one.made_us / 1_000_000, UTC).isoformat(timespec="seconds")
    queries = ", ".join(f"{query} at batch {batch}" for query, batch in one.batches.items())
    return [f"{one.name}  {made}  {queries or 'no query has begun'}"]


def go_back(settings: Settings) -> str | None:
    """Go back to the savepoint that is asked for; what was there before is kept under the name this gives."""
    if settings.savepoint is None:
        return None
    from headrace.stream.savepoints import restore

    return restore(settings.state, settings.savepoint).name
