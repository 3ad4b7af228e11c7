"""`headrace lateness APP STREAM`: measures how late events arrive, and suggests a value for `late=`."""

import json
from pathlib import Path

import click

from headrace.declare.app import load_app
from headrace.lake.lateness.lateness_report import to_json, to_text
from headrace.runtime.batch_session import batch_session
from headrace.runtime.configuration.click_options import setting_options
from headrace.runtime.settings import BadSetting, lake_folder


@click.command()
@click.argument("app")
@click.argument("stream")
@setting_options("state", "lake", "spark")
@click.option("--json", "in_json", is_flag=True, help="As JSON.")
def lateness(app: str, stream: str, lake: str | None, state: str, spark: str | None, in_json: bool) -> None:
    """Measure how late the events of STREAM arrive, and what each choice of late= would drop."""
    from headrace.kafka.schema_registry.known_schemas import load_known_schemas
    from headrace.lake.lateness.lateness_measurement import measure_lateness

    loaded_app, folder = load_app(app), lake_folder(lake, Path(state))
    if folder is None:
        raise BadSetting("--lake off: lateness is measured in the lake. Give its folder with --lake DIR.")
    declared_stream = loaded_app.stream(stream)
    known_schemas = load_known_schemas(declared_stream, Path(state))
    with batch_session(spark) as session:
        report = measure_lateness(session, folder, declared_stream, loaded_app.views_of(declared_stream), known_schemas)
    click.echo(json.dumps(to_json(report), indent=2) if in_json else to_text(report))
