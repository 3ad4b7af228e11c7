"""What the commands share that train a model."""

from typing import Any

import click

from headrace.declare.models.labels import Labels
from headrace.declare.models.model import Model
from headrace.runtime.batch_session import batch_session
from headrace.runtime.settings import BadSetting, event_source


def require_train_extra() -> None:
    """Say what to install where the libraries that train are missing."""
    try:
        import headrace.models.training.estimator_fit  # noqa: F401
    except ModuleNotFoundError as error:
        raise BadSetting(
            f"{error.name} is not installed, and training needs it: pip install 'headrace[train]'."
        ) from error


def labeled_training_table(model: Model, labels: Labels, over_us: int | None, flags: dict[str, Any]) -> Any:
    """The training set of what is known now."""
    from headrace.lake.training.labelled_events import ArrivalWindow, current_time_us, labelled_training_set

    source = event_source(flags)
    click.echo(f"headrace: reading the events and labels of {source}", err=True)
    with batch_session(flags["spark"]) as spark:
        known_events = ArrivalWindow(current_time_us(spark, model, labels, source), over_us)
        return labelled_training_set(spark, model, labels, source, known_events)
