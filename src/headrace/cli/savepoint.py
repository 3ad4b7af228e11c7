"""`headrace savepoint APP NAME|ls`: keep what every query has, to go back to with `up --from-savepoint NAME`."""

import json
from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

import click

from headrace.cli.locations import location
from headrace.cli.settings import Settings
from headrace.declare.app import App, load_app

if TYPE_CHECKING:
    from headrace.stream.savepoints import Savepoint


@click.command()
@click.argument("app")
@click.argument("name")
@location("state")
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


def go_back(app: App, settings: Settings) -> str | None:
    """Go back to the savepoint that is asked for; what was there before is kept under the name this gives.

    Where the app could not go on from it, that is said while everything is still where it was.
    """
    if settings.savepoint is None:
        return None
    from headrace.stream.generations import possible_plans
    from headrace.stream.operations import possible_runs, rebuilt
    from headrace.stream.savepoints import folder_of, restore

    kept, again = folder_of(settings.state, settings.savepoint), rebuilt(app, settings.rebuild)
    possible_runs(app, kept, again, settings.since_us)
    possible_plans(app, kept, {stream.name: stream.partitions for stream in app.streams}, again)
    return restore(settings.state, settings.savepoint).name
