"""`headrace backfill APP VIEW`: computes tiles from history, and the offset from which the stream continues."""

import json
from contextlib import ExitStack
from functools import cache
from pathlib import Path
from typing import Any

import click

from headrace.declare.app import load_app
from headrace.runtime.batch_session import batch_session
from headrace.runtime.configuration.click_options import setting_options
from headrace.runtime.settings import BadSetting, broker_from_flags, lake_folder


@click.command()
@click.argument("app")
@click.argument("view")
@setting_options("state", "lake", "broker", "broker_port", "spark")
@click.option("--json", "in_json", is_flag=True, help="Print the result as JSON.")
def backfill(app: str, view: str, lake: str | None, in_json: bool, **flags: Any) -> None:
    """Compute the history of VIEW, a new view of APP, up to where the stream takes over; a restart resumes."""
    # Imported here: only this command needs Spark.
    from headrace.lake.backfill.backfill import backfill_view
    from headrace.lake.backfill.cutover import BackfillConfig

    state = Path(flags["state"])
    folder = lake_folder(lake, state)
    if folder is None:
        raise BadSetting("--lake off: history is in the lake. Give its folder with --lake DIR.")
    config = BackfillConfig(folder, broker_from_flags(flags), state)
    with ExitStack() as exit_stack:
        session = cache(lambda: exit_stack.enter_context(batch_session(flags["spark"])))
        result = backfill_view(session, load_app(app).view(view), config, print_progress)
    if in_json:
        cutovers = {stream: list(cutover.raw) for stream, cutover in result.cuts.items()}
        click.echo(json.dumps({"view": view, "cut": cutovers, "changelog": result.ends}))


def print_progress(line: str) -> None:
    """Print one line of progress to stderr; stdout has only the requested JSON."""
    click.echo(f"headrace: {line}", err=True)
