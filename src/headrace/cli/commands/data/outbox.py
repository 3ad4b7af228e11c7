"""`headrace outbox --from env:PG_URL`: relays rows of an outbox table to their streams."""

import json
import logging
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

import click
from click.core import ParameterSource

from headrace.connectors.outbox.ddl import outbox_ddl
from headrace.declare.app import App, load_app
from headrace.declare.durations import duration_us
from headrace.runtime.configuration.click_options import setting_options
from headrace.runtime.part_runner import outbox_table, stop_on_signals
from headrace.runtime.settings import BadSetting, broker_from_flags

if TYPE_CHECKING:
    from headrace.connectors.outbox.outbox_table import OutboxTable

MAX_SHOWN_ROWS = 100
ADDRESS_PREFIXES = ("env:", "postgres://", "postgresql://")


@click.command()
@click.argument("app", required=False)
@click.option(
    "--from",
    "from_",
    envvar="HEADRACE_OUTBOX_FROM",  # other commands have a --from for files
    metavar="env:NAME|postgres://…",
    help="The address of the database; a password only in the environment.",
)
@click.option("--table", default="outbox", show_default=True, metavar="NAME", help="The table, such as shop.outbox.")
@click.option(
    "--every", default="100ms", show_default=True, metavar="DURATION", help="How often an idle table is polled."
)
@click.option("--print-sql", is_flag=True, help="Print the SQL that creates the table, and exit.")
@click.option("--status", is_flag=True, help="Print how many rows are pending, and which are parked and why.")
@click.option("--unpark", is_flag=True, help="Retry the parked rows.")
@click.option("--json", "in_json", is_flag=True, help="Print the status as JSON.")
@setting_options("broker", "broker_port")
def outbox(app: str | None, **flags: Any) -> None:
    """Relay the rows of a table to their streams, in order per key; with APP, each must fit its stream or is parked."""
    if flags["print_sql"]:
        click.echo(outbox_ddl(flags["table"]))
        return
    loaded_app = None if app is None else load_app(app)
    table = _table_from_flags(flags) if flags["from_"] or loaded_app is None else _declared_table(loaded_app)
    if flags["unpark"]:
        click.echo(f"{table.unpark_rows():,} rows will be retried.")
    elif flags["status"]:
        _print_status(table, in_json=flags["in_json"])
    else:
        _run_relay(loaded_app, table, flags)


def _declared_table(app: App) -> "OutboxTable":
    """The table of the only outbox that an app declares."""
    if len(app.outboxes) != 1:
        raise BadSetting(f"{app.name} declares {len(app.outboxes)} outboxes. Write --from env:PG_URL and --table NAME.")
    return outbox_table(app.outboxes[0].url, app.outboxes[0].table)


def _run_relay(app: App | None, table: "OutboxTable", flags: dict[str, Any]) -> None:
    from headrace.connectors.outbox.outbox_part import RelayRunner, run_relay_group
    from headrace.connectors.outbox.relay import Relay

    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(name)s: %(message)s")
    streams = {} if app is None else {stream.name: stream for stream in app.streams}
    every_s = duration_us(flags["every"], "--every") / 1_000_000
    broker = broker_from_flags(flags)
    run_relay_group([RelayRunner(Relay(table, broker, streams), table.name, every_s)], broker, stop_on_signals())


def _table_from_flags(flags: dict[str, Any]) -> "OutboxTable":
    address = _require_safe_address(flags["from_"])
    if not flags["table"] or not all(flags["table"].split(".")):
        raise BadSetting(f"--table {flags['table']!r} is no name. Write --table outbox or --table shop.outbox.")
    return outbox_table(address, flags["table"])


def _require_safe_address(address: str | None) -> str:
    """Validate the database address; a command line or a file must not have a password, which others could read."""
    if address is None or not address.startswith(ADDRESS_PREFIXES):
        raise BadSetting("--from is no address of PostgreSQL. Write --from env:PG_URL and set that variable.")
    source = click.get_current_context().get_parameter_source("from_")
    has_password = ":" in urlsplit(address).netloc.rpartition("@")[0] or "password=" in address
    if has_password and source is not ParameterSource.ENVIRONMENT:
        raise BadSetting("--from has a password, which others can read there. Write --from env:PG_URL and set that.")
    return address


def _print_status(table: "OutboxTable", *, in_json: bool) -> None:
    status, parked = table.read_status(), table.read_parked(MAX_SHOWN_ROWS)
    if in_json:
        oldest = status.oldest_created and status.oldest_created.isoformat()
        rows = [{"id": row.id, "stream": row.stream, "key": row.key, "reason": row.reason} for row in parked]
        click.echo(
            json.dumps({"waiting": status.pending_count, "parked": status.parked_count, "oldest": oldest, "rows": rows})
        )
        return
    since = f", the oldest since {status.oldest_created.isoformat(timespec='seconds')}" if status.oldest_created else ""
    click.echo(f"{status.pending_count:,} rows are pending{since}; {status.parked_count:,} are parked.")
    for one in parked:
        click.echo(f"  {one.id}  {one.stream}  {one.key!r}  {one.reason!r}")
