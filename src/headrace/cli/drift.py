"""`headrace drift APP MODEL`: what a model is served beside what it was trained on, and what to do about it."""

import json
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from headrace.cli.locations import locations
from headrace.cli.settings import BadSetting, lake_folder
from headrace.declare.app import load_app
from headrace.declare.durations import duration_text, duration_us
from headrace.declare.model import Model

if TYPE_CHECKING:
    from headrace.evaluate.drift.look import Look
    from headrace.evaluate.drift.window import Rows

HEAD = ("column", "segment", "test", "statistic", "critical", "multiple", "effect", "importance")


@click.command()
@click.argument("app")
@click.argument("model")
@click.option("--over", metavar="DURATION", help="Of the vectors of so long; the window of drift= without it.")
@click.option("--version", "of_version", metavar="VERSION", help="Of this version; the champion without it.")
@locations("state", "lake")
@click.option("--json", "in_json", is_flag=True, help="As JSON.")
def drift(app: str, model: str, over: str | None, of_version: str | None, in_json: bool, **flags: Any) -> None:
    """What MODEL was served lately that is not as it was trained on: the heaviest first, and what to do."""
    from headrace.evaluate.drift.look import row_of
    from headrace.evaluate.vectors import Sought

    declared, state = load_app(app).model(model), Path(flags["state"])
    folder = lake_folder(flags["lake"], state)
    if folder is None:
        raise BadSetting("--lake off: served vectors are counted in the lake. Give its folder with --lake DIR.")
    window_us = declared.drift.window_us if over is None else duration_us(over, "--over")
    sought = Sought(of_version or _champion(declared, state), window_us)
    look, rows = _looked(declared, state, folder, sought)
    ranked = [row_of(one, rows) for one in look.drifted]
    if in_json:
        said = {"model": model, "version": sought.version, "window": duration_text(window_us), "rows": look.rows}
        click.echo(json.dumps(said | {"multiple": look.multiple, "columns": dict(look.multiples), "ranked": ranked}))
        return
    click.echo(f"{model} version {sought.version}: {look.rows:,} vectors in {duration_text(window_us)}\n")
    click.echo("\n".join(_table(ranked) if ranked else _nothing(look, declared)))
    click.echo("\n".join(_advice(app, declared, ranked)))


def _champion(model: Model, state: Path) -> str:
    from headrace.score.champions import name_of_champion
    from headrace.score.versions import Versions

    if model.train is None:
        has = "learns from each outcome" if model.file is None else "has file="
        raise BadSetting(
            f"Model {model.name!r} {has}, and has no card that says what it was trained on. Drift needs train=. "
            f"Write headrace quality APP {model.name} for how good it is."
        )
    return name_of_champion(model, Versions(state, model.name).champion())


def _looked(model: Model, state: Path, lake: Path, sought: Any) -> tuple["Look", "Rows"]:
    from headrace.evaluate.drift.layout import layout_of
    from headrace.evaluate.drift.look import look_at, policy_of
    from headrace.evaluate.drift.ranking import importance_of
    from headrace.evaluate.vectors import Cards, read_window
    from headrace.score.versions import Versions

    card = Versions(state, model.name).card(sought.version)
    layout = layout_of(card)  # says what is wrong with a card that cannot be compared with
    rows = read_window(lake, model, Cards(model, state), sought, time.time_ns() // 1000)
    return look_at(layout, rows, policy_of(model.drift), importance_of(card)), rows


def _table(ranked: list[dict[str, Any]]) -> list[str]:
    lines = [HEAD, *(_cells(row) for row in ranked)]
    widths = [max(len(line[place]) for line in lines) for place in range(len(HEAD))]
    return [
        "  ".join(cell.ljust(width) if place < 3 else cell.rjust(width) for place, (cell, width) in enumerate(zipped))
        for zipped in (list(zip(line, widths, strict=True)) for line in lines)
    ]


def _cells(row: dict[str, Any]) -> tuple[str, ...]:
    segment = ", ".join(f"{name}={value}" for name, value in row["segment"].items()) or "all"
    numbers = [row[name] for name in HEAD[3:]]
    return (row["column"], segment, row["test"], *("exact" if one is None else f"{one:.3g}" for one in numbers))


def _nothing(look: "Look", model: Model) -> list[str]:
    if not look.multiples:
        return [f"Too few to tell: {model.drift.least_rows} vectors are needed."]
    nearest = max(look.multiples, key=lambda name: look.multiples[name])
    return [f"Nothing drifted. The nearest is {nearest}, at {look.multiples[nearest]:.2f} of what is drift."]


def _advice(app: str, model: Model, ranked: list[dict[str, Any]]) -> list[str]:
    """What to do, by what the tests tell of."""
    if not ranked:
        return []
    lines = ["", "What to do", *(f"  {row['column']}: {_why(row)}" for row in ranked[:3])]
    anew = f"headrace retrain {app} {model.name}" if model.labels else f"headrace train {app} {model.name} --spine FILE"
    return [*lines, f"  If this is how it will be from now on: {anew}"]


def _why(row: dict[str, Any]) -> str:
    if row["column"] == "score":
        return "what the model says has changed: look at the inputs above it, or at its version."
    if row["test"] == "missing":
        return "null more or less often than it was: look at where it comes from, headrace plan names its stream."
    if row["test"] == "infinite":
        return "infinite: something is divided by nothing."
    if row["test"] == "unseen":
        often = sorted(row["new"].items(), key=lambda one: -one[1])[:5]
        such_as = f", such as {', '.join(f'{text!r} ({count})' for text, count in often)}" if often else ""
        return f"values it was never trained on{such_as}: a new source, unit or spelling?"
    return (
        "the same values in other shares: other customers, another season, another producer, or windows not filled yet?"
    )
