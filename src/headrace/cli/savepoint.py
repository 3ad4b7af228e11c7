"""`headrace savepoint create|ls APP [NAME]`: keep what every query has, to go back to with `up --from-savepoint`."""

import json
from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

import click

from headrace.cli.grammar import verbs
from headrace.cli.locations import location
from headrace.cli.settings import BadSetting, Settings
from headrace.declare.app import App, load_app

if TYPE_CHECKING:
    from headrace.stream.savepoints import Savepoint

OLD_US = 600_000_000  # twice the default of --checkpoint
ACTIONS = ("create", "ls")


@click.command(cls=verbs(*ACTIONS, implied="create"))
@click.argument("action", metavar="|".join(ACTIONS))
@click.argument("app", required=False, metavar="APP")
@click.argument("name", required=False)
@location("state")
@click.option("--json", "in_json", is_flag=True, help="As JSON.")
def savepoint(action: str, app: str, name: str | None, state: str, in_json: bool) -> None:
    """Create a savepoint NAME of the state of APP, running or not; or ls those there are.

    A query that is down is kept as of its last commit.
    """
    from headrace.stream.queries import checkpoints_of
    from headrace.stream.savepoints import make, savepoints

    declared, folder = load_app(app), Path(state)
    if action == "create" and name is None:
        raise BadSetting(f"Under which name? Write headrace savepoint create {app} NAME.")
    found = savepoints(folder) if name is None else [make(folder, name, checkpoints_of(declared, folder))]
    if in_json:
        click.echo(json.dumps([asdict(one) for one in found]))
    else:
        click.echo("\n".join(line for one in found for line in _lines(one)) or "No savepoints.")


def _lines(one: "Savepoint") -> list[str]:
    queries = ", ".join(f"{query} at batch {batch}{_since(one, query)}" for query, batch in one.batches.items())
    lines = [f"{one.name}  {_moment(one.made_us)}  {queries or 'no query has begun'}"]
    if one.missing:
        lines.append(f"  without {', '.join(one.missing)}: nothing committed yet; begins with the earliest record")
    return lines


def _since(one: "Savepoint", query: str) -> str:
    """When the last batch of a query was committed, where that was long before: the query may be down."""
    committed_us = one.committed_us.get(query, one.made_us)
    is_old = committed_us and one.made_us - committed_us > OLD_US
    return f" of {_moment(committed_us)}" if is_old else ""


def _moment(at_us: int) -> str:
    return datetime.fromtimestamp(at_us / 1_000_000, UTC).isoformat(timespec="seconds")


def go_back(app: App, settings: Settings) -> str | None:
    """Go back to the savepoint that is asked for; what was there before is kept under the name this gives.

    Where the app could not go on from it, that is said while everything is still where it was.
    """
    if settings.savepoint is None:
        return None
    from headrace.stream.kept_state import plan_on_state
    from headrace.stream.savepoints import folder_of, restore

    plan_on_state(app, folder_of(settings.state, settings.savepoint), settings.rebuild, since_us=settings.since_us)
    return restore(settings.state, settings.savepoint).name
