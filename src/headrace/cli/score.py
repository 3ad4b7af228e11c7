"""`headrace score APP MODEL --spine FILE --out FILE`: a spine with its features and scores, by Spark."""

import json
from pathlib import Path
from typing import Any

import click

from headrace.cli.batch import batch_session
from headrace.cli.settings import SPINE_OPTIONS, BadSetting, options, source_of, spine_of
from headrace.cli.train import found_text
from headrace.declare.app import load_app


@click.command()
@click.argument("app")
@click.argument("model")
@click.option("--version", metavar="VERSION", help="Another version than the champion.")
@click.option("--out", required=True, metavar="FILE", help="Where to write them with features, score and decision.")
@options(SPINE_OPTIONS)
def score(app: str, model: str, version: str | None, in_json: bool, **flags: Any) -> None:
    """Score each row of a spine with MODEL, on the features of its entity as they were at its time."""
    from headrace.lake.spines import Scoring, require_known, score_files
    from headrace.lake.training import Question
    from headrace.score.batches import ADDED, batch_scorer
    from headrace.score.champions import load_champion, load_version

    declared, state = load_app(app).model(model), Path(flags["state"])
    spine, out, source = spine_of(flags), Path(flags["out"]), source_of(flags)
    if declared.learns_alone:
        raise BadSetting(f"Model {model!r} learns from the log: only events are scored. Give it train= to score files.")
    loaded = load_version(declared, state, version) if version else load_champion(declared, state)
    require_known(spine, out)
    scoring = Scoring(batch_scorer(declared, loaded), ADDED, declared.fields)
    question = Question(flags["as_of"], source, flags["time"] or declared.stream.time)
    click.echo(f"headrace: scoring {spine} with {model} version {loaded.version}", err=True)
    with batch_session(flags["spark"]) as spark:
        found = score_files(spark, spine, out, declared.views, question, scoring)
    done = {"out": str(out), "version": loaded.version, "views": found}
    click.echo(json.dumps(done) if in_json else found_text(found, out))
