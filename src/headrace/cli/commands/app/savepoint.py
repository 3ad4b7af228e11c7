"""`headrace savepoint create|ls APP [NAME]`: saves the state of every query, to restore with `up --from-savepoint`."""

import json
from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

import click

from headrace.cli.command_grammar import verb_command
from headrace.declare.app import load_app
from headrace.runtime.configuration.click_options import setting_option
from headrace.runtime.settings import BadSetting

if TYPE_CHECKING:
    from headrace.spark.checkpoints.savepoints import Savepoint

STALE_COMMIT_US = 600_000_000  # twice the default of --checkpoint
ACTIONS = ("create", "ls")


@click.command(cls=verb_command(*ACTIONS, implied="create"))
@click.argument("action", metavar="|".join(ACTIONS))
@click.argument("app", required=False, metavar="APP")
@click.argument("name", required=False)
@setting_option("state")
@click.option("--json", "in_json", is_flag=True, help="As JSON.")
def savepoint(action: str, app: str, name: str | None, state: str, in_json: bool) -> None:
    """Create a savepoint NAME of the state of APP, running or not; or list the savepoints with ls.

    A query that is down is saved as of its last commit.
    """
    from headrace.spark.checkpoints.savepoints import create_savepoint, list_savepoints
    from headrace.spark.execution.app_queries import list_checkpoints

    loaded_app, folder = load_app(app), Path(state)
    if action == "create" and name is None:
        raise BadSetting(f"NAME is missing. Write headrace savepoint create {app} NAME.")
    entries = (
        list_savepoints(folder)
        if name is None
        else [create_savepoint(folder, name, list_checkpoints(loaded_app, folder))]
    )
    if in_json:
        click.echo(json.dumps([asdict(entry) for entry in entries]))
    else:
        click.echo("\n".join(line for one in entries for line in _format_savepoint(one)) or "No savepoints.")


def _format_savepoint(entry: "Savepoint") -> list[str]:
    queries = ", ".join(
        f"{query} at batch {batch}{_stale_commit_text(entry, query)}" for query, batch in entry.batches.items()
    )
    lines = [f"{entry.name}  {_format_time(entry.made_us)}  {queries or 'no query has started'}"]
    if entry.missing:
        lines.append(f"  without {', '.join(entry.missing)}: nothing committed yet; starts at the earliest offset")
    return lines


def _stale_commit_text(entry: "Savepoint", query: str) -> str:
    """When the last batch of a query was committed, if that was long before the savepoint: the query may be down."""
    committed_us = entry.committed_us.get(query, entry.made_us)
    is_old = committed_us and entry.made_us - committed_us > STALE_COMMIT_US
    return f" of {_format_time(committed_us)}" if is_old else ""


def _format_time(at_us: int) -> str:
    return datetime.fromtimestamp(at_us / 1_000_000, UTC).isoformat(timespec="seconds")
