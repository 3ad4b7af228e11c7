"""`headrace retrain APP MODEL`: a model trained anew on what is known now, promoted only if it is better."""

import faulthandler
import json
import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from threading import Timer
from typing import Any

import click

from headrace.cli.registry import REGISTRY, require_known_registry, tell_registry
from headrace.cli.settings import SOURCE_OPTIONS, BadSetting, options
from headrace.cli.training import labelled, require_train_extra
from headrace.declare.app import load_app
from headrace.declare.durations import UNITS_US, duration_text
from headrace.declare.labels import Labels
from headrace.declare.model import Model
from headrace.declare.retrain import Retrain

GRACE_SECONDS = 5.0


@click.command()
@click.argument("app")
@click.argument("model")
@click.option("--why", default="asked for", show_default=True, help="What its card gives as the reason.")
@click.option("--tried", type=int, hidden=True)  # the last attempt that is known to who starts this; told by `up`
@REGISTRY
@options(SOURCE_OPTIONS)
def retrain(app: str, model: str, why: str, in_json: bool, tried: int | None, **flags: Any) -> None:
    """Train MODEL anew on its labelled events, and make it the champion if it is better by the declared margin.

    Events have the features they had when they arrived. A version that is not better is kept, and challenges.
    """
    require_train_extra()
    from headrace.evaluate.attempts import alone, note_tried
    from headrace.evaluate.retrain import retrain as train_anew
    from headrace.lake.landing import ARRIVAL
    from headrace.score.fit import train_of
    from headrace.score.train import Asked
    from headrace.score.versions import Versions

    declared, state = load_app(app).model(model), Path(flags["state"])
    train_of(declared)
    labels, rules = labels_of(declared), declared.retrain or Retrain()
    require_known_registry(flags["registry"], state)
    versions = Versions(state, model)

    def give_up() -> None:
        note_tried(versions)
        click.echo(
            f"Error: Model {model!r} was not trained within {duration_text(rules.limit_us)}, the limit= of hr.Retrain: "
            "it is given up. Its champion goes on as it was.",
            err=True,
        )

    with alone(versions, tried), ended_after(rules.limit_us, give_up):
        table = labelled(declared, labels, rules.over_us, flags)
        click.echo(f"headrace: {table.num_rows:,} labelled events", err=True)
        done = train_anew(declared, table, rules, Asked(ARRIVAL), versions, why)
    tell_registry(flags["registry"], state, versions)
    said = "champion" if done.verdict.promoted else "challenger"
    text = f"{model} version {done.card.version} is {said}: {done.verdict.reason}"
    click.echo(json.dumps(done.card.retrained | {"version": done.card.version}) if in_json else text)


@contextmanager
def ended_after(limit_us: int, last_words: Callable[[], None]) -> Iterator[None]:
    """End this process where something takes longer: a library that hangs cannot be ended any other way."""

    def end() -> None:
        last_words()
        os._exit(1)

    seconds = limit_us / UNITS_US["s"]
    timer = Timer(seconds, end)
    timer.daemon = True
    timer.start()
    # What never gives the interpreter to a timer is ended without a word, but with a traceback.
    faulthandler.dump_traceback_later(seconds + GRACE_SECONDS, exit=True, file=sys.__stderr__ or sys.stderr)
    try:
        yield
    finally:
        timer.cancel()
        faulthandler.cancel_dump_traceback_later()


def labels_of(model: Model) -> Labels:
    """What tells what became of a model's events."""
    if model.labels is None:
        raise BadSetting(
            f"Model {model.name!r} has no labels= to train on. Write labels=hr.Labels(…) in hr.Model, or give a spine: "
            f"headrace train APP {model.name} --spine FILE."
        )
    return model.labels
