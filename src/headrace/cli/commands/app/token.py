"""`headrace token create|ls|revoke`: who may ask a server, and for what."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import click

from headrace.runtime.locations import location_option
from headrace.server.auth.api_tokens import create_token, read_tokens, revoke_token
from headrace.server.auth.scopes import GRANTABLE_SCOPES, parse_scopes

Command = TypeVar("Command", bound=Callable[..., Any])


@click.group()
def token() -> None:
    """Tokens: who may ask the server of a state folder, and for what."""


def _state_option(command: Command) -> Command:
    return location_option("state")(command)


@token.command()
@click.argument("name")
@click.option(
    "--scope", required=True, metavar="SCOPES", help=f"What it may do: some of {', '.join(GRANTABLE_SCOPES)}."
)
@_state_option
def create(name: str, scope: str, state: str) -> None:
    """Make a token NAME and print it, this once: only a hash of it is kept."""
    new_token = create_token(Path(state), name, parse_scopes(scope))
    click.echo(f"headrace: {name} is good at once; keep it, it cannot be shown again", err=True)
    click.echo(new_token)


@token.command()
@click.option("--json", "in_json", is_flag=True, help="As JSON.")
@_state_option
def ls(state: str, in_json: bool) -> None:
    """Every token, by its name: what it may do, and when it was made."""
    rows = [
        {"name": api_token.name, "scopes": sorted(api_token.scopes), "made": api_token.created_at}
        for api_token in read_tokens(Path(state))
    ]
    lines = [f"{row['name']:<24}{','.join(row['scopes']):<28}{row['made']}" for row in rows]
    click.echo(json.dumps(rows) if in_json else "\n".join(lines) or "no tokens")


@token.command()
@click.argument("name")
@_state_option
def revoke(name: str, state: str) -> None:
    """Forget the token NAME: a running server refuses it within seconds."""
    remaining = revoke_token(Path(state), name)
    remaining_text = f"{len(remaining)} left" if remaining else "none is left, and without one nobody is let in"
    click.echo(f"headrace: {name} is revoked; {remaining_text}", err=True)
