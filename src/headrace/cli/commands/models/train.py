"""`headrace train APP VIEW… --spine FILE --out FILE`: a training set; `headrace train APP MODEL`: a model."""

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from headrace.cli.training_options import SPINE_OPTIONS, labeled_training_table, require_train_extra
from headrace.declare.app import load_app
from headrace.declare.features.view import View
from headrace.declare.models.model import Model
from headrace.models.versions.model_card import ModelCard, format_metrics
from headrace.runtime.batch_session import batch_session
from headrace.runtime.configuration.click_options import apply_options, setting_option
from headrace.runtime.registry_publishing import publish_to_registry, require_known_registry
from headrace.runtime.settings import BadSetting, event_source, require_spine

if TYPE_CHECKING:
    from headrace.lake.training.training_files import StatusCounts


@click.command()
@click.argument("app")
@click.argument("names", nargs=-1, required=True, metavar="VIEW…|MODEL")
@click.option("--out", metavar="FILE", help="The output file, with one column for each feature; required for views.")
@click.option(
    "--test",
    type=click.FloatRange(0.01, 0.9),
    default=0.2,
    show_default=True,
    help="For a model: the share of rows held out for testing.",
)
@click.option("--promote", is_flag=True, help="For a model: make the new version the champion.")
@setting_option("registry")
@apply_options(*SPINE_OPTIONS)
def train(app: str, names: tuple[str, ...], in_json: bool, **flags: Any) -> None:
    """Give each row of a spine the features of APP's VIEWS as they were at its time; or train MODEL on them.

    A model is fitted on the earlier rows, evaluated on the last ones, and stored as a new version with its card.
    """
    loaded_app = load_app(app)
    if any(name == model.name for model in loaded_app.models for name in names):
        if len(names) > 1:
            raise BadSetting(f"{' '.join(names)}: train one model at a time, or name views alone.")
        _train_model(loaded_app.model(names[0]), in_json, flags)
    else:
        _write_training_set([loaded_app.view(name) for name in names], in_json, flags)


def _write_training_set(views: list[View], in_json: bool, flags: dict[str, Any]) -> None:
    # Imported here: only this command needs Spark.
    from headrace.lake.training.training_files import require_known_formats, write_training_set
    from headrace.lake.training.training_set import TrainingSetRequest

    if flags["out"] is None:
        raise BadSetting("--out is missing. Give the file of the training set: --out train.parquet.")
    spine, out, source = require_spine(flags), Path(flags["out"]), event_source(flags)
    require_known_formats(spine, out)
    click.echo(f"headrace: reading {spine} and the events of {source}", err=True)
    with batch_session(flags["spark"]) as spark:
        counts = write_training_set(spark, spine, out, views, TrainingSetRequest(flags["as_of"], source, flags["time"]))
    click.echo(json.dumps({"out": str(out), "views": counts}) if in_json else format_counts(counts, out))


def _train_model(model: Model, in_json: bool, flags: dict[str, Any]) -> None:
    require_train_extra()
    from headrace.lake.ingestion.table_mapping import ARRIVAL
    from headrace.models.training.estimator_fit import require_train_function
    from headrace.models.training.training import TrainingConfig, train_model
    from headrace.models.versions.version_store import VersionStore

    require_train_function(model)
    state = Path(flags["state"])
    require_known_registry(flags["registry"])
    if flags["spine"] is None and model.labels is not None:
        _require_no_spine_options(flags)
        table, time = labeled_training_table(model, model.labels, None, flags), ARRIVAL
    else:
        time = flags["time"] or model.stream.time
        table = _spine_training_table(model, time, flags)
    versions = VersionStore(state, model.name)
    card = train_model(model, table, TrainingConfig(time, flags["as_of"], flags["test"]), versions)
    champion = (versions.promote(card.version) if flags["promote"] else versions.load_roles()).champion
    publish_to_registry(flags["registry"], state, versions)
    click.echo(card.to_json() if in_json else _format_card(card, champion))


def _require_no_spine_options(flags: dict[str, Any]) -> None:
    if flags["as_of"] != "arrival" or flags["time"] or flags["out"]:
        raise BadSetting(
            "--as-of, --time and --out go with --spine. Without it, events have the features they arrived with."
        )


def _spine_training_table(model: Model, time: str, flags: dict[str, Any]) -> Any:
    """The training set of a spine."""
    from headrace.lake.training.training_files import build_training_table, require_known_formats
    from headrace.lake.training.training_set import TrainingSetRequest

    spine, source, out = require_spine(flags), event_source(flags), Path(flags["out"]) if flags["out"] else None
    require_known_formats(spine, *([out] if out else []))
    click.echo(f"headrace: reading {spine} and the events of {source}", err=True)
    with batch_session(flags["spark"]) as spark:
        return build_training_table(spark, spine, model.views, TrainingSetRequest(flags["as_of"], source, time), out)


def format_counts(counts_by_view: "StatusCounts", out: Path) -> str:
    """The counts of lookup outcomes of a spine, as text."""
    lines = [
        f"{view}: rows {', '.join(f'{outcome} {count:,}' for outcome, count in counts.items() if count)}"
        for view, counts in counts_by_view.items()
    ]
    return "\n".join([*lines, f"wrote {out}"])


def _format_card(card: ModelCard, champion: str | None) -> str:
    rows = f"{card.rows['train']:,} rows fitted, {card.rows['test']:,} later ones tested"
    champion_text = "the champion" if champion == card.version else f"the champion is version {champion}"
    return f"{card.model} version {card.version} ({champion_text}): {format_metrics(card.metrics)}; {rows}"
