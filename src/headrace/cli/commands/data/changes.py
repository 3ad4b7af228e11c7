"""`headrace changes ls|drop APP`: the replication slots of captured tables, and how to drop one."""

import json
from typing import TYPE_CHECKING, Any

import click

from headrace.cli.command_grammar import VerbGroup
from headrace.declare.app import App, load_app
from headrace.errors import HeadraceError

if TYPE_CHECKING:
    from headrace.connectors.cdc.source_database import SourceDatabase


class ReplicationSlotInUseError(HeadraceError):
    """A replication slot is in use."""


class ReplicationSlotMissing(HeadraceError):
    """There is no replication slot of that name."""


@click.group(cls=VerbGroup)
def changes() -> None:
    """The captured tables of APP, and their replication slots."""


@changes.command()
@click.argument("app")
@click.option("--json", "in_json", is_flag=True, help="As JSON.")
def ls(app: str, in_json: bool) -> None:
    """List the replication slots of APP: whether each is active, and how much of the database's disk it retains."""
    rows = _slot_rows(load_app(app))
    if in_json:
        click.echo(json.dumps(rows))
        return
    click.echo(f"{'table':<28}{'slot':<40}{'read now':>9}{'log kept':>12}")
    for row in rows:
        retained = f"{row['kept_bytes'] / 1e6:,.1f} MB"
        click.echo(f"{row['table'] or 'unused':<28}{row['slot']:<40}{'yes' if row['read'] else 'no':>9}{retained:>12}")


@changes.command()
@click.argument("app")
@click.argument("slot")
def drop(app: str, slot: str) -> None:
    """Drop a SLOT of APP, as `ls` names it; if its table is captured again, that starts with a snapshot."""
    loaded_app = load_app(app)
    for database in _source_databases(loaded_app):
        for replication_slot in database.list_slots(loaded_app.name):
            if replication_slot.name != slot:
                continue
            if replication_slot.is_active:
                raise ReplicationSlotInUseError(f"The slot {slot} is read at this moment. Stop the app first.")
            database.drop_publication(slot)
            database.drop_slot(slot)
            click.echo(
                f"{slot} is dropped: its database releases {replication_slot.retained_bytes / 1e6:,.1f} MB of log."
            )
            return
    raise ReplicationSlotMissing(f"There is no slot {slot!r}. `headrace changes ls {app}` lists all slots.")


def _source_databases(app: App) -> "list[SourceDatabase]":
    from headrace.connectors.cdc.capture_part import captured_streams
    from headrace.connectors.cdc.source_database import source_database

    return [source_database(table_changes) for table_changes in captured_streams(app)]


def _slot_rows(app: App) -> list[dict[str, Any]]:
    """Each slot once, even if several tables are in one database."""
    from headrace.connectors.cdc.source_database import slot_name

    databases = _source_databases(app)
    tables = {slot_name(app.name, database.changes): database.source.table for database in databases}
    slots = {(one.display_name, slot.name): slot for one in databases for slot in one.list_slots(app.name)}
    return [
        {
            "database": database_name,
            "slot": name,
            "table": tables.get(name),
            "read": slot.is_active,
            "kept_bytes": slot.retained_bytes,
        }
        for (database_name, name), slot in slots.items()
    ]
