"""`headrace token create|ls|revoke`: who may ask a server, and for what."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import click

from headrace.cli.locations import location
from headrace.serve.scopes import GIVEN, scopes_of
from headrace.serve.tokens import create_token, read_tokens, revoke_token

Command = TypeVar("Command", bound=Callable[..., Any])


@click.group()
def token() -> None:
    """Tokens: who may ask the server of a state folder, and for what."""


def _of_state(command: Command) -> Command:
    return location("state")(command)


@token.command()
@click.argument("name")
@click.option("--scope", required=True, metavar="SCOPES", help=f"What it may do: some of {', '.join(GIVEN)}.")
@_of_state
def create(name: str, scope: str, state: str) -> None:
    """Make a token NAME and print it, this once: only a hash of it is kept."""
    made = create_token(Path(state), name, scopes_of(scope))
    click.echo(f"headrace: {name} is good at once; keep it, it cannot be shown again", err=True)
    click.echo(made)


@token.command()
@click.option("--json", "in_json", is_flag=True, help="As JSON.")
@_of_state
def ls(state: str, in_json: bool) -> None:
    """Every token, by its name: what it may do, and when it was made."""
    rows = [{"name": one.name, "scopes": sorted(one.scopes), "made": one.made} for one in read_tokens(Path(state))]
    lines = [f"{row['name']:<24}{','.join(row['scopes']):<28}{row['made']}" for row in rows]
    click.echo(json.dumps(rows) if in_json else "\n".join(lines) or "no tokens")


@token.command()
@click.argument("name")
@_of_state
def revoke(name: str, state: str) -> None:
    """Forget the token NAME: a running server refuses it within seconds."""
    left = revoke_token(Path(state), name)
    now = f"{len(left)} left" if left else "none is left, and without one nobody is let in"
    click.echo(f"headrace: {name} is revoked; {now}", err=True)
