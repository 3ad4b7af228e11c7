"""`headrace status APP`: what runs, what is down, since when and why, and the lag; also while the broker is down."""

import json
import sys
from typing import Any

import click
from click.core import ParameterSource

from headrace.runtime.configuration.click_options import setting_option, setting_options
from headrace.runtime.settings import broker_from_flags
from headrace.runtime.status_report import StatusReport, collect_status

ALL_RUNS, SOMETHING_DOWN, NOTHING_RUNS = 0, 1, 2


@click.command()
@click.argument("app")
@setting_options("broker", "broker_port", "state", "http")
@setting_option("tls_cert", "The certificate of the server, if it uses HTTPS.")
@click.option("--json", "in_json", is_flag=True, help="As JSON.")
def status(app: str, in_json: bool, **flags: Any) -> None:
    """Show what of APP runs and what is down; exit 0: all runs, 1: something is down, 2: nothing runs."""
    report = collect_status(app, _given_broker(flags), flags)
    if in_json:
        click.echo(json.dumps(report.as_json(), indent=2))
    else:
        _print_report(report)
    sys.exit(exit_code(report))


def _given_broker(flags: dict[str, Any]) -> str | None:
    """The broker that a flag, a variable or headrace.toml names, if any of them does."""
    sources = map(click.get_current_context().get_parameter_source, ("broker", "broker_port"))
    return None if all(source is ParameterSource.DEFAULT for source in sources) else broker_from_flags(flags)


def exit_code(report: StatusReport) -> int:
    """The exit code of the command."""
    if not report.is_running:
        return NOTHING_RUNS
    return SOMETHING_DOWN if report.outages else ALL_RUNS


def _print_report(report: StatusReport) -> None:
    from rich.console import Console

    console = Console(highlight=False, soft_wrap=False)
    console.print(headline(report), markup=False)
    for title, rows in report.as_json().items():
        if isinstance(rows, list) and rows and title != "down":
            console.print(_build_table(title, rows))
    for outage in report.outages:
        console.print(outage.sentence, markup=False)


def headline(report: StatusReport) -> str:
    """The overall state in one line."""
    if not report.is_running:
        return f"{report.app}: nothing runs. {report.broker_error or 'Start it with `headrace up`.'}"
    broker = f" The broker does not answer: {report.broker_error}" if report.broker_error else ""
    if report.outages:
        return f"{report.app}: {len(report.outages)} down.{broker}"
    return f"{report.app}: all runs.{broker}"


def _build_table(title: str, rows: list[dict[str, Any]]) -> Any:
    from rich.box import SIMPLE_HEAD
    from rich.table import Table

    columns = [name for name in rows[0] if any(row[name] not in (None, "", []) for row in rows)]
    table = Table(title=title, box=SIMPLE_HEAD, title_justify="left")
    for name in columns:
        table.add_column(name.replace("_", " "), overflow="fold")
    for row in rows:
        table.add_row(*(_format_cell(row[name]) for name in columns))
    return table


def _format_cell(value: Any) -> Any:
    from rich.text import Text

    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, list):
        return Text(", ".join(map(str, value)))
    return Text("" if value is None else str(value))
