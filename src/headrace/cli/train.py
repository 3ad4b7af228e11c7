"""`headrace train APP VIEW… --spine FILE --out FILE`: a training set; `headrace train APP MODEL`: a model from one."""

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from headrace.cli.batch import batch_session
from headrace.cli.registry import REGISTRY, require_known_registry, tell_registry
from headrace.cli.settings import SPINE_OPTIONS, BadSetting, options, source_of, spine_of
from headrace.cli.training import labelled, require_train_extra
from headrace.declare.app import load_app
from headrace.declare.model import Model
from headrace.declare.views import View
from headrace.score.card import Card, in_words

if TYPE_CHECKING:
    from headrace.lake.spines import Counts


@click.command()
@click.argument("app")
@click.argument("names", nargs=-1, required=True, metavar="VIEW…|MODEL")
@click.option("--out", metavar="FILE", help="Where to write the rows with one column more a feature; views need it.")
@click.option(
    "--test", type=click.FloatRange(0.01, 0.9), default=0.2, show_default=True, help="A model: the share tested on."
)
@click.option("--promote", is_flag=True, help="A model: make the new version the champion.")
@REGISTRY
@options(SPINE_OPTIONS)
def train(app: str, names: tuple[str, ...], in_json: bool, **flags: Any) -> None:
    """Give each row of a spine the features of APP's VIEWS as they were at its time; or train MODEL on them.

    A model is fitted on the earlier rows, measured on the last ones by time, and kept as a new version with its card.
    """
    declared = load_app(app)
    if any(name == model.name for model in declared.models for name in names):
        if len(names) > 1:
            raise BadSetting(f"{' '.join(names)}: train one model at a time, or name views alone.")
        _train_model(declared.model(names[0]), in_json, flags)
    else:
        _write_training_set([declared.view(name) for name in names], in_json, flags)


def _write_training_set(views: list[View], in_json: bool, flags: dict[str, Any]) -> None:
    # Imported here: only this command pays for Spark.
    from headrace.lake.spines import require_known, train_files
    from headrace.lake.training import Question

    if flags["out"] is None:
        raise BadSetting("--out is missing. Say where to write the training set: --out train.parquet.")
    spine, out, source = spine_of(flags), Path(flags["out"]), source_of(flags)
    require_known(spine, out)
    click.echo(f"headrace: reading {spine} and the events of {source}", err=True)
    with batch_session(flags["spark"]) as spark:
        found = train_files(spark, spine, out, views, Question(flags["as_of"], source, flags["time"]))
    click.echo(json.dumps({"out": str(out), "views": found}) if in_json else found_text(found, out))


def _train_model(model: Model, in_json: bool, flags: dict[str, Any]) -> None:
    require_train_extra()
    from headrace.lake.landing import ARRIVAL
    from headrace.score.fit import train_of
    from headrace.score.train import Asked, train_model
    from headrace.score.versions import Versions

    train_of(model)
    state = Path(flags["state"])
    require_known_registry(flags["registry"], state)
    if flags["spine"] is None and model.labels is not None:
        _require_plain(flags)
        table, time = labelled(model, model.labels, None, flags), ARRIVAL
    else:
        time = flags["time"] or model.stream.time
        table = _looked_up(model, time, flags)
    versions = Versions(state, model.name)
    card = train_model(model, table, Asked(time, flags["as_of"], flags["test"]), versions)
    champion = (versions.promote(card.version) if flags["promote"] else versions.champion()).champion
    tell_registry(flags["registry"], state, versions)
    click.echo(card.text() if in_json else _card_text(card, champion))


def _require_plain(flags: dict[str, Any]) -> None:
    if flags["as_of"] != "arrival" or flags["time"] or flags["out"]:
        raise BadSetting(
            "--as-of, --time and --out go with --spine. Without it, events have the features they arrived with."
        )


def _looked_up(model: Model, time: str, flags: dict[str, Any]) -> Any:
    """The training set of a spine."""
    from headrace.lake.spines import require_known, training_table
    from headrace.lake.training import Question

    spine, source, out = spine_of(flags), source_of(flags), Path(flags["out"]) if flags["out"] else None
    require_known(spine, *([out] if out else []))
    click.echo(f"headrace: reading {spine} and the events of {source}", err=True)
    with batch_session(flags["spark"]) as spark:
        return training_table(spark, spine, model.views, Question(flags["as_of"], source, time), out)


def found_text(found: "Counts", out: Path) -> str:
    """What was found of a spine, for a person."""
    lines = [
        f"{view}: rows {', '.join(f'{said} {count:,}' for said, count in counts.items() if count)}"
        for view, counts in found.items()
    ]
    return "\n".join([*lines, f"wrote {out}"])


def _card_text(card: Card, champion: str | None) -> str:
    rows = f"{card.rows['train']:,} rows fitted, {card.rows['test']:,} later ones tested"
    standing = "the champion" if champion == card.version else f"the champion is version {champion}"
    return f"{card.model} version {card.version} ({standing}): {in_words(card.metrics)}; {rows}"
