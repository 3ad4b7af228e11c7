"""`headrace changes ls|drop APP`: the slots that captured tables hold in their databases, and how to let go of one."""

import json
from typing import TYPE_CHECKING, Any

import click

from headrace.cli.grammar import VerbGroup
from headrace.declare.app import App, load_app
from headrace.errors import HeadraceError

if TYPE_CHECKING:
    from headrace.capture.database import Database


class InUse(HeadraceError):
    """A slot is read at this moment."""


class NoSlot(HeadraceError):
    """There is no slot of that name."""


@click.group(cls=VerbGroup)
def changes() -> None:
    """The captured tables of APP, and what they hold in their databases."""


@changes.command()
@click.argument("app")
@click.option("--json", "in_json", is_flag=True, help="As JSON.")
def ls(app: str, in_json: bool) -> None:
    """The slots of APP: whether each is read now, and how much of the database's disk it holds."""
    rows = _rows(load_app(app))
    if in_json:
        click.echo(json.dumps(rows))
        return
    click.echo(f"{'table':<28}{'slot':<40}{'read now':>9}{'log kept':>12}")
    for row in rows:
        kept = f"{row['kept_bytes'] / 1e6:,.1f} MB"
        click.echo(f"{row['table'] or 'left over':<28}{row['slot']:<40}{'yes' if row['read'] else 'no':>9}{kept:>12}")


@changes.command()
@click.argument("app")
@click.argument("slot")
def drop(app: str, slot: str) -> None:
    """Drop a SLOT of APP, as `ls` names it; should its table be captured again, that begins with a snapshot."""
    declared = load_app(app)
    for database in _databases(declared):
        for found in database.slots(declared.name):
            if found.name != slot:
                continue
            if found.is_read:
                raise InUse(f"The slot {slot} is read at this moment. Stop the app first.")
            database.unpublish(slot)
            database.drop(slot)
            click.echo(f"{slot} is dropped: its database lets go of {found.kept_bytes / 1e6:,.1f} MB of log.")
            return
    raise NoSlot(f"There is no slot {slot!r}. `headrace changes ls {app}` names those there are.")


def _databases(app: App) -> "list[Database]":
    from headrace.capture.database import database_of
    from headrace.capture.run import captured

    return [database_of(one) for one in captured(app)]


def _rows(app: App) -> list[dict[str, Any]]:
    """Every slot once, though several tables are in one database."""
    from headrace.capture.database import name_of

    databases = _databases(app)
    tables = {name_of(app.name, one.changes): one.source.table for one in databases}
    found = {(one.shown, slot.name): slot for one in databases for slot in one.slots(app.name)}
    return [
        {
            "database": shown,
            "slot": name,
            "table": tables.get(name),
            "read": slot.is_read,
            "kept_bytes": slot.kept_bytes,
        }
        for (shown, name), slot in found.items()
    ]
