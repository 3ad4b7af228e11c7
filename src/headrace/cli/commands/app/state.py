"""`headrace state ls|show APP [QUERY] [--key K]`: the size of each query's state, and the state of one key."""

import json
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from headrace.cli.command_grammar import verb_command
from headrace.declare.app import load_app
from headrace.runtime.batch_session import batch_session
from headrace.runtime.configuration.click_options import setting_options
from headrace.runtime.settings import BadSetting

if TYPE_CHECKING:
    from headrace.spark.checkpoints.state_reader import QueryStateSummary

ACTIONS = ("ls", "show")


@click.command(cls=verb_command(*ACTIONS, implied="ls"))
@click.argument("action", metavar="|".join(ACTIONS))
@click.argument("app", required=False, metavar="APP")
@click.argument("query", required=False)
@click.option("--key", metavar="KEY", help="Show the state of this key; of several columns, a JSON list.")
@click.option("--at", metavar="BATCH|TIME", help="The state at this batch, or at this time; the newest by default.")
@setting_options("state", "spark")
@click.option("--json", "in_json", is_flag=True, help="As JSON.")
def state(action: str, app: str, query: str | None, **flags: Any) -> None:
    """List the stateful queries of APP with rows, bytes and last batch; or show the state of a key."""
    from headrace.spark.checkpoints.state_reader import list_query_states

    if action == "show" and query is None:
        raise BadSetting(
            f"QUERY is missing. Write headrace state show {app} QUERY; headrace state ls {app} names them."
        )
    query_states = list_query_states(load_app(app), Path(flags["state"]))
    selected_states = [query_state for query_state in query_states if query in {None, query_state.query}]
    if query is not None and not selected_states:
        names = ", ".join(one.query for one in query_states) or "none"
        raise BadSetting(f"Query {query!r} has no state here. Queries with state: {names}.")
    if flags["key"] is None:
        _print_rows([one.to_json() for one in selected_states], flags["in_json"], _format_sizes(selected_states))
        return
    if query is None:
        raise BadSetting(f"QUERY is missing. Write headrace state show {app} QUERY --key {flags['key']}.")
    rows = _read_key_state(selected_states[0], flags)
    _print_rows(
        rows, flags["in_json"], [json.dumps(row) for row in rows] or [f"{query} has no state for {flags['key']}."]
    )


def _read_key_state(query_state: "QueryStateSummary", flags: dict[str, Any]) -> list[dict[str, Any]]:
    from headrace.spark.checkpoints.state_reader import find_batch, read_key_state

    at = flags["at"]
    batch = find_batch(query_state, at, None if at is None or at.isdigit() else _parse_time_us(at))
    with batch_session(flags["spark"]) as spark:
        return read_key_state(spark, query_state, flags["key"], batch)


def _parse_time_us(text: str) -> int:
    try:
        at = datetime.fromisoformat(text)
    except ValueError as error:
        raise BadSetting(f"--at {text!r} is neither a batch nor a time. Write 42, or 2026-01-01T00:00:00Z.") from error
    return int(at.replace(tzinfo=at.tzinfo or UTC).timestamp() * 1_000_000)


def _print_rows(rows: list[dict[str, Any]], in_json: bool, lines: list[str]) -> None:
    click.echo(json.dumps(rows) if in_json else "\n".join(lines))


def _format_sizes(query_states: "list[QueryStateSummary]") -> list[str]:
    header = f"{'query':<40}{'batch':>10}{'rows':>12}{'bytes':>14}"
    return [
        header,
        *(
            f"{query_state.query:<40}{query_state.batch:>10}{query_state.rows:>12,}{query_state.bytes:>14,}"
            for query_state in query_states
        ),
    ]
