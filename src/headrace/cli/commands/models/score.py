"""`headrace score APP MODEL --spine FILE --out FILE`: scores a spine with its features, in Spark."""

import json
from pathlib import Path
from typing import Any

import click

from headrace.cli.commands.models.train import format_counts
from headrace.cli.training_options import SPINE_OPTIONS
from headrace.declare.app import load_app
from headrace.runtime.batch_session import batch_session
from headrace.runtime.configuration.click_options import apply_options
from headrace.runtime.settings import BadSetting, event_source, require_spine


@click.command()
@click.argument("app")
@click.argument("model")
@click.option("--version", metavar="VERSION", help="The version; by default the champion.")
@click.option("--out", required=True, metavar="FILE", help="The output file, with features, score and decision.")
@apply_options(*SPINE_OPTIONS)
def score(app: str, model: str, version: str | None, in_json: bool, **flags: Any) -> None:
    """Score each row of a spine with MODEL, on the features of its entity as they were at its time."""
    from headrace.lake.training.training_files import BatchScoring, require_known_formats, write_scored_spine
    from headrace.lake.training.training_set import TrainingSetRequest
    from headrace.models.inference.arrow_scoring import ADDED_COLUMNS, batch_scorer
    from headrace.models.versions.version_loader import load_champion, load_version

    declared_model, state = load_app(app).model(model), Path(flags["state"])
    spine, out, source = require_spine(flags), Path(flags["out"]), event_source(flags)
    if declared_model.learns_alone:
        raise BadSetting(f"Model {model!r} learns online: only events are scored. Give it train= to score files.")
    loaded = load_version(declared_model, state, version) if version else load_champion(declared_model, state)
    require_known_formats(spine, out)
    scoring = BatchScoring(batch_scorer(declared_model, loaded), ADDED_COLUMNS, declared_model.fields)
    training_request = TrainingSetRequest(flags["as_of"], source, flags["time"] or declared_model.stream.time)
    click.echo(f"headrace: scoring {spine} with {model} version {loaded.version}", err=True)
    with batch_session(flags["spark"]) as spark:
        counts = write_scored_spine(spark, spine, out, declared_model.views, training_request, scoring)
    result = {"out": str(out), "version": loaded.version, "views": counts}
    click.echo(json.dumps(result) if in_json else format_counts(counts, out))
