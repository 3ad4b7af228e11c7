"""`headrace retrain APP MODEL`: retrains a model on the data known now, and promotes it only if it is better."""

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

from headrace.cli.training_options import SOURCE_OPTIONS, labeled_training_table, require_train_extra
from headrace.declare.app import load_app
from headrace.declare.durations import UNITS_US, duration_text
from headrace.declare.models.labels import Labels
from headrace.declare.models.model import Model
from headrace.declare.models.retraining import Retrain
from headrace.runtime.configuration.click_options import apply_options, setting_option
from headrace.runtime.registry_publishing import publish_to_registry, require_known_registry
from headrace.runtime.settings import BadSetting

GRACE_SECONDS = 5.0


@click.command()
@click.argument("app")
@click.argument("model")
@click.option("--why", default="asked for", show_default=True, help="The reason to record in the card.")
@click.option("--tried", type=int, hidden=True)  # the last attempt known to the caller; set by `up`
@setting_option("registry")
@apply_options(*SOURCE_OPTIONS)
def retrain(app: str, model: str, why: str, in_json: bool, tried: int | None, **flags: Any) -> None:
    """Retrain MODEL on its labelled events, and make it the champion if it is better by the declared margin.

    Events have the features they had when they arrived. A version that is not better is kept as a challenger.
    """
    require_train_extra()
    from headrace.lake.ingestion.table_mapping import ARRIVAL
    from headrace.models.training.estimator_fit import require_train_function
    from headrace.models.training.training import TrainingConfig
    from headrace.models.versions.version_store import VersionStore
    from headrace.monitoring.retraining.retraining import retrain_model
    from headrace.monitoring.retraining.training_attempts import record_attempt, training_lock

    declared_model, state = load_app(app).model(model), Path(flags["state"])
    require_train_function(declared_model)
    labels, rules = require_labels(declared_model), declared_model.retrain or Retrain()
    require_known_registry(flags["registry"])
    versions = VersionStore(state, model)

    def give_up() -> None:
        record_attempt(versions)
        click.echo(
            f"Error: Model {model!r} was not trained within {duration_text(rules.limit_us)}, the limit= of hr.Retrain: "
            "the training is cancelled. The champion stays.",
            err=True,
        )

    with training_lock(versions, tried), exit_after(rules.limit_us, give_up):
        table = labeled_training_table(declared_model, labels, rules.over_us, flags)
        click.echo(f"headrace: {table.num_rows:,} labelled events", err=True)
        result = retrain_model(declared_model, table, rules, TrainingConfig(ARRIVAL), versions, why)
    publish_to_registry(flags["registry"], state, versions)
    role = "champion" if result.decision.promoted else "challenger"
    text = f"{model} version {result.card.version} is {role}: {result.decision.reason}"
    click.echo(json.dumps(result.card.retrained | {"version": result.card.version}) if in_json else text)


@contextmanager
def exit_after(limit_us: int, on_timeout: Callable[[], None]) -> Iterator[None]:
    """End this process after a time limit: a library that hangs cannot be stopped otherwise."""

    def exit_process() -> None:
        on_timeout()
        os._exit(1)

    seconds = limit_us / UNITS_US["s"]
    timer = Timer(seconds, exit_process)
    timer.daemon = True
    timer.start()
    # Code that never releases the interpreter to a timer is ended by faulthandler, with a traceback.
    faulthandler.dump_traceback_later(seconds + GRACE_SECONDS, exit=True, file=sys.__stderr__ or sys.stderr)
    try:
        yield
    finally:
        timer.cancel()
        faulthandler.cancel_dump_traceback_later()


def require_labels(model: Model) -> Labels:
    """The labels of a model, required."""
    if model.labels is None:
        raise BadSetting(
            f"Model {model.name!r} has no labels= to train on. Write labels=hr.Labels(…) in hr.Model, or give a spine: "
            f"headrace train APP {model.name} --spine FILE."
        )
    return model.labels
