"""`headrace state ls|show APP [QUERY] [--key K]`: which queries keep how much, and what one keeps for a key."""

import json
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from headrace.cli.batch import batch_session
from headrace.cli.grammar import verbs
from headrace.cli.locations import location
from headrace.cli.settings import BadSetting
from headrace.declare.app import load_app

if TYPE_CHECKING:
    from headrace.stream.kept import Kept

ACTIONS = ("ls", "show")


@click.command(cls=verbs(*ACTIONS, implied="ls"))
@click.argument("action", metavar="|".join(ACTIONS))
@click.argument("app", required=False, metavar="APP")
@click.argument("query", required=False)
@click.option("--key", metavar="KEY", help="What is kept for this key; of several columns, a JSON list.")
@click.option("--at", metavar="BATCH|TIME", help="As it was at this batch, or by this time; without it, the newest.")
@location("state")
@click.option("--spark", metavar="MASTER", help="Your Spark master; without it, Spark runs here.")
@click.option("--json", "in_json", is_flag=True, help="As JSON.")
def state(action: str, app: str, query: str | None, **flags: Any) -> None:
    """List the queries of APP that keep state, with rows, bytes and last batch; or show what one keeps for a key."""
    from headrace.stream.kept import kept_by

    if action == "show" and query is None:
        raise BadSetting(f"Which query? Write headrace state show {app} QUERY; headrace state ls {app} names them.")
    found = kept_by(load_app(app), Path(flags["state"]))
    chosen = [one for one in found if query in {None, one.query}]
    if query is not None and not chosen:
        names = ", ".join(one.query for one in found) or "none"
        raise BadSetting(f"No query {query!r} keeps anything here. Those that do: {names}.")
    if flags["key"] is None:
        _tell([one.as_json() for one in chosen], flags["in_json"], _sizes(chosen))
        return
    if query is None:
        raise BadSetting(f"Of which query? Write headrace state show {app} QUERY --key {flags['key']}.")
    rows = _of_key(chosen[0], flags)
    _tell(rows, flags["in_json"], [json.dumps(row) for row in rows] or [f"{query} keeps nothing for {flags['key']}."])


def _of_key(kept: "Kept", flags: dict[str, Any]) -> list[dict[str, Any]]:
    from headrace.stream.kept import batch_at, of_key

    at = flags["at"]
    batch = batch_at(kept, at, None if at is None or at.isdigit() else _time_us(at))
    with batch_session(flags["spark"]) as spark:
        return of_key(spark, kept, flags["key"], batch)


def _time_us(text: str) -> int:
    try:
        at = datetime.fromisoformat(text)
    except ValueError as error:
        raise BadSetting(f"--at {text!r} is neither a batch nor a time. Write 42, or 2026-01-01T00:00:00Z.") from error
    return int(at.replace(tzinfo=at.tzinfo or UTC).timestamp() * 1_000_000)


def _tell(rows: list[dict[str, Any]], in_json: bool, lines: list[str]) -> None:
    click.echo(json.dumps(rows) if in_json else "\n".join(lines))


def _sizes(found: "list[Kept]") -> list[str]:
    head = f"{'query':<40}{'batch':>10}{'rows':>12}{'bytes':>14}"
    return [head, *(f"{one.query:<40}{one.batch:>10}{one.rows:>12,}{one.bytes:>14,}" for one in found)]
