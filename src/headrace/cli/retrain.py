"""`headrace retrain APP MODEL`: a model trained anew on what is known now, promoted only if it is better."""

import json
from pathlib import Path
from typing import Any

import click

from headrace.cli.registry import REGISTRY, require_known_registry, tell_registry
from headrace.cli.settings import SOURCE_OPTIONS, BadSetting, options
from headrace.cli.training import labelled, require_train_extra
from headrace.declare.app import load_app
from headrace.declare.labels import Labels
from headrace.declare.model import Model
from headrace.declare.retrain import Retrain


@click.command()
@click.argument("app")
@click.argument("model")
@click.option("--why", default="asked for", show_default=True, help="What its card gives as the reason.")
@click.option("--state", default=".headrace", show_default=True, metavar="DIR", help="Where versions are kept.")
@REGISTRY
@options(SOURCE_OPTIONS)
def retrain(app: str, model: str, why: str, in_json: bool, **flags: Any) -> None:
    """Train MODEL anew on its labelled events, and make it the champion if it is better by the declared margin.

    Events have the features they had when they arrived. A version that is not better is kept, and challenges.
    """
    require_train_extra()
    from headrace.evaluate.retrain import alone
    from headrace.evaluate.retrain import retrain as train_anew
    from headrace.lake.landing import ARRIVAL
    from headrace.score.train import Asked
    from headrace.score.versions import Versions

    declared, state = load_app(app).model(model), Path(flags["state"])
    labels, rules = labels_of(declared), declared.retrain or Retrain()
    require_known_registry(flags["registry"], state)
    versions = Versions(state, model)
    with alone(versions):
        table = labelled(declared, labels, rules.over_us, flags)
        click.echo(f"headrace: {table.num_rows:,} labelled events", err=True)
        done = train_anew(declared, table, rules, Asked(ARRIVAL), versions, why)
    tell_registry(flags["registry"], state, versions)
    said = "champion" if done.verdict.promoted else "challenger"
    text = f"{model} version {done.card.version} is {said}: {done.verdict.reason}"
    click.echo(json.dumps(done.card.retrained | {"version": done.card.version}) if in_json else text)


def labels_of(model: Model) -> Labels:
    """What tells what became of a model's events."""
    if model.labels is None:
        raise BadSetting(
            f"Model {model.name!r} has no labels= to train on. Write labels=hr.Labels(…) in hr.Model, or give a spine: "
            f"headrace train APP {model.name} --spine FILE."
        )
    return model.labels
