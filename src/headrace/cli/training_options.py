"""Options and helpers of the commands that train a model or read a spine."""

from typing import Any

import click

from headrace.declare.models.labels import Labels
from headrace.declare.models.model import Model
from headrace.runtime.batch_session import batch_session
from headrace.runtime.configuration.click_options import setting_options
from headrace.runtime.settings import BadSetting, event_source

# The events are read from the lake; with --lake off, straight from the log.
SOURCE_OPTIONS = (
    setting_options("state", "lake", "broker", "broker_port", "spark"),
    click.option("--json", "in_json", is_flag=True, help="Print the result as JSON."),
)

SPINE_OPTIONS = (
    click.option("--spine", metavar="FILE", help="The file with rows of entity and time, and any other columns."),
    click.option("--as-of", type=click.Choice(["arrival", "event"]), default="arrival", show_default=True),
    click.option("--time", metavar="COLUMN", help="The spine's time column; by default that of the stream."),
    *SOURCE_OPTIONS,
)


def require_train_extra() -> None:
    """Refuse to train without the training libraries, and say what to install."""
    try:
        import headrace.models.training.estimator_fit  # noqa: F401
    except ModuleNotFoundError as error:
        raise BadSetting(
            f"{error.name} is not installed, and training needs it: pip install 'headrace[train]'."
        ) from error


def labeled_training_table(model: Model, labels: Labels, over_us: int | None, flags: dict[str, Any]) -> Any:
    """The training set of the labelled events known now."""
    from headrace.lake.training.labelled_events import ArrivalWindow, current_time_us, labelled_training_set

    source = event_source(flags)
    click.echo(f"headrace: reading the events and labels of {source}", err=True)
    with batch_session(flags["spark"]) as spark:
        known_events = ArrivalWindow(current_time_us(spark, model, labels, source), over_us)
        return labelled_training_set(spark, model, labels, source, known_events)
