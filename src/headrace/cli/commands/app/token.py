"""`headrace token create|ls|revoke`: API tokens and their scopes."""

import json
from pathlib import Path

import click

from headrace.runtime.configuration.click_options import setting_option
from headrace.server.auth.api_tokens import create_token, read_tokens, revoke_token
from headrace.server.auth.scopes import GRANTABLE_SCOPES, parse_scopes


@click.group()
def token() -> None:
    """Tokens that authenticate clients of the server, and their scopes."""


@token.command()
@click.argument("name")
@click.option(
    "--scope", required=True, metavar="SCOPES", help=f"The scopes of the token: some of {', '.join(GRANTABLE_SCOPES)}."
)
@setting_option("state")
def create(name: str, scope: str, state: str) -> None:
    """Create a token NAME and print it once: only its hash is stored."""
    new_token = create_token(Path(state), name, parse_scopes(scope))
    click.echo(f"headrace: {name} is valid at once; keep it, it cannot be shown again", err=True)
    click.echo(new_token)


@token.command()
@click.option("--json", "in_json", is_flag=True, help="As JSON.")
@setting_option("state")
def ls(state: str, in_json: bool) -> None:
    """List all tokens by name, with their scopes and creation times."""
    rows = [
        {"name": api_token.name, "scopes": sorted(api_token.scopes), "made": api_token.created_at}
        for api_token in read_tokens(Path(state))
    ]
    lines = [f"{row['name']:<24}{','.join(row['scopes']):<28}{row['made']}" for row in rows]
    click.echo(json.dumps(rows) if in_json else "\n".join(lines) or "no tokens")


@token.command()
@click.argument("name")
@setting_option("state")
def revoke(name: str, state: str) -> None:
    """Revoke the token NAME: a running server refuses it within seconds."""
    remaining = revoke_token(Path(state), name)
    remaining_text = (
        f"{len(remaining)} left" if remaining else "none is left, and the server rejects all requests without one"
    )
    click.echo(f"headrace: {name} is revoked; {remaining_text}", err=True)
