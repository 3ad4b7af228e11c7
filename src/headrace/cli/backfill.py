"""`headrace backfill APP VIEW`: tiles from history, and the place where the stream goes on from them."""

import json
from contextlib import ExitStack
from functools import cache
from pathlib import Path
from typing import Any

import click

from headrace.cli.batch import batch_session
from headrace.cli.locations import locations
from headrace.cli.settings import BadSetting, lake_folder, log_of
from headrace.declare.app import load_app


@click.command()
@click.argument("app")
@click.argument("view")
@locations("state", "lake", "broker", "broker_port")
@click.option("--spark", metavar="MASTER", help="Your Spark master; without it, Spark runs here.")
@click.option("--json", "in_json", is_flag=True, help="Say what was done as JSON.")
def backfill(app: str, view: str, lake: str | None, in_json: bool, **flags: Any) -> None:
    """Fold the history of VIEW, a new view of APP, up to where the stream will go on; started again, it goes on."""
    # Imported here: only this command pays for Spark.
    from headrace.lake.backfill import backfill_view
    from headrace.lake.cutting import HistoryPlace

    state = Path(flags["state"])
    folder = lake_folder(lake, state)
    if folder is None:
        raise BadSetting("--lake off: history is in the lake. Give its folder with --lake DIR.")
    place = HistoryPlace(folder, log_of(flags), state)
    with ExitStack() as until_done:
        session = cache(lambda: until_done.enter_context(batch_session(flags["spark"])))
        done = backfill_view(session, load_app(app).view(view), place, say)
    if in_json:
        cuts = {stream: list(cut.raw) for stream, cut in done.cuts.items()}
        click.echo(json.dumps({"view": view, "cut": cuts, "changelog": done.ends}))


def say(line: str) -> None:
    """One line of progress; what is asked for as JSON stays alone on the output."""
    click.echo(f"headrace: {line}", err=True)
