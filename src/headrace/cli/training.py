"""What the commands share that train a model."""

from typing import Any

import click

from headrace.cli.batch import batch_session
from headrace.cli.settings import BadSetting, source_of
from headrace.declare.labels import Labels
from headrace.declare.model import Model


def require_train_extra() -> None:
    """Say what to install where the libraries that train are missing."""
    try:
        import headrace.score.fit  # noqa: F401
    except ModuleNotFoundError as missing:
        raise BadSetting(
            f"{missing.name} is not installed, and training needs it: pip install 'headrace[train]'."
        ) from missing


def labelled(model: Model, labels: Labels, over_us: int | None, flags: dict[str, Any]) -> Any:
    """The training set of what is known now."""
    from headrace.lake.labelled import Known, labelled_set, now_us

    source = source_of(flags)
    click.echo(f"headrace: reading the events and labels of {source}", err=True)
    with batch_session(flags["spark"]) as spark:
        known = Known(now_us(spark, model, labels, source), over_us)
        return labelled_set(spark, model, labels, source, known)
