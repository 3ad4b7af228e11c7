"""`headrace lateness APP STREAM`: how late events come, and the `late=` that asks for."""

import json
from pathlib import Path

import click

from headrace.cli.batch import batch_session
from headrace.cli.locations import locations
from headrace.cli.settings import BadSetting, lake_folder
from headrace.declare.app import load_app
from headrace.lake.measured import as_json, as_text


@click.command()
@click.argument("app")
@click.argument("stream")
@locations("state", "lake")
@click.option("--spark", metavar="MASTER", help="Your Spark master; without it, Spark runs here.")
@click.option("--json", "in_json", is_flag=True, help="As JSON.")
def lateness(app: str, stream: str, lake: str | None, state: str, spark: str | None, in_json: bool) -> None:
    """Measure how late the events of STREAM come, and what each choice of late= would lose."""
    from headrace.lake.lateness import lateness_of
    from headrace.log.schemas.known import known_of

    declared, folder = load_app(app), lake_folder(lake, Path(state))
    if folder is None:
        raise BadSetting("--lake off: lateness is measured in the lake. Give the folder it is in with --lake DIR.")
    measured = declared.stream(stream)
    known = known_of(measured, Path(state))
    with batch_session(spark) as session:
        found = lateness_of(session, folder, measured, declared.views_of(measured), known)
    click.echo(json.dumps(as_json(found), indent=2) if in_json else as_text(found))
