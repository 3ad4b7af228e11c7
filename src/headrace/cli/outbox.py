"""`headrace outbox --from env:PG_URL`: rows of a table, written with a business change, relayed to their streams."""

import json
import logging
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

import click
from click.core import ParameterSource

from headrace.cli.run import stop_on_signals, table_of
from headrace.cli.settings import LOG_OPTIONS, BadSetting, log_of, options
from headrace.declare.app import App, load_app
from headrace.declare.durations import duration_us
from headrace.outbox.ddl import ddl_of

if TYPE_CHECKING:
    from headrace.outbox.table import Table

SHOWN = 100
SCHEMES = ("env:", "postgres://", "postgresql://")


@click.command()
@click.argument("app", required=False)
@click.option(
    "--from",
    "from_",
    envvar="HEADRACE_OUTBOX_FROM",  # other commands have a --from of files
    metavar="env:NAME|postgres://…",
    help="Where the table is; a password in the environment alone.",
)
@click.option("--table", default="outbox", show_default=True, metavar="NAME", help="The table, as shop.outbox.")
@click.option(
    "--every", default="100ms", show_default=True, metavar="DURATION", help="How often an idle table is read."
)
@click.option("--print-sql", is_flag=True, help="Print the SQL that makes the table, and do nothing else.")
@click.option("--status", is_flag=True, help="Tell how many rows wait, and which are parked and why.")
@click.option("--unpark", is_flag=True, help="Let the rows that were parked be tried again.")
@click.option("--json", "in_json", is_flag=True, help="Tell the status as JSON.")
@options(LOG_OPTIONS)
def outbox(app: str | None, **flags: Any) -> None:
    """Send the rows of a table to their streams, in order per key; with APP, each must fit its stream or is parked."""
    if flags["print_sql"]:
        click.echo(ddl_of(flags["table"]))
        return
    declared = None if app is None else load_app(app)
    table = _table(flags) if flags["from_"] or declared is None else _declared(declared)
    if flags["unpark"]:
        click.echo(f"{table.unpark():,} rows are tried again.")
    elif flags["status"]:
        _tell(table, in_json=flags["in_json"])
    else:
        _relay(declared, table, flags)


def _declared(app: App) -> "Table":
    """The table of the one outbox that an app declares."""
    if len(app.outboxes) != 1:
        raise BadSetting(f"{app.name} declares {len(app.outboxes)} outboxes. Write --from env:PG_URL and --table NAME.")
    return table_of(app.outboxes[0].url, app.outboxes[0].table)


def _relay(app: App | None, table: "Table", flags: dict[str, Any]) -> None:
    from headrace.outbox.relay import Relay
    from headrace.outbox.run import Relaying, relay_until

    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(name)s: %(message)s")
    streams = {} if app is None else {stream.name: stream for stream in app.streams}
    every_s = duration_us(flags["every"], "--every") / 1_000_000
    broker = log_of(flags)
    relay_until(Relaying(Relay(table, broker, streams), table.name, every_s), broker, stop_on_signals())


def _table(flags: dict[str, Any]) -> "Table":
    address = _address(flags["from_"])
    if not flags["table"] or not all(flags["table"].split(".")):
        raise BadSetting(f"--table {flags['table']!r} is no name. Write --table outbox or --table shop.outbox.")
    return table_of(address, flags["table"])


def _address(written: str | None) -> str:
    """Where the table is; what stands on a command line or in a file has no password, for others read it."""
    if written is None or not written.startswith(SCHEMES):
        raise BadSetting("--from is no address of PostgreSQL. Write --from env:PG_URL and set that variable.")
    source = click.get_current_context().get_parameter_source("from_")
    has_password = ":" in urlsplit(written).netloc.rpartition("@")[0] or "password=" in written
    if has_password and source is not ParameterSource.ENVIRONMENT:
        raise BadSetting("--from has a password, which others can read there. Write --from env:PG_URL and set that.")
    return written


def _tell(table: "Table", *, in_json: bool) -> None:
    status, parked = table.status(), table.parked(SHOWN)
    if in_json:
        oldest = status.oldest and status.oldest.isoformat()
        rows = [{"id": one.id, "stream": one.stream, "key": one.key, "reason": one.reason} for one in parked]
        click.echo(json.dumps({"waiting": status.waiting, "parked": status.parked, "oldest": oldest, "rows": rows}))
        return
    since = f", the oldest since {status.oldest.isoformat(timespec='seconds')}" if status.oldest else ""
    click.echo(f"{status.waiting:,} rows wait{since}; {status.parked:,} are parked.")
    for one in parked:
        click.echo(f"  {one.id}  {one.stream}  {one.key!r}  {one.reason!r}")
