"""`headrace models ls|show|promote|rollback`: the versions of an app's models, and which of them scores."""

import json
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import Any, TypeVar

import click

from headrace.cli.settings import BadSetting
from headrace.declare.app import load_app
from headrace.declare.model import Model
from headrace.score.card import Card
from headrace.score.champions import load_version
from headrace.score.versions import NoVersion, Versions

Command = TypeVar("Command", bound=Callable[..., Any])


@click.group()
def models() -> None:
    """The versions of an app's models, and which of them scores."""


def _command(command: Command) -> Command:
    state = click.option(
        "--state", default=".headrace", show_default=True, metavar="DIR", help="Where versions are kept."
    )
    return state(click.option("--json", "in_json", is_flag=True, help="As JSON.")(command))


@models.command()
@click.argument("app")
@_command
def ls(app: str, state: str, in_json: bool) -> None:
    """Every version of every model of APP."""
    rows = [row for model in load_app(app).models for row in _rows(model, Path(state))]
    click.echo(json.dumps(rows) if in_json else "\n".join(map(_line, rows)) or "no models")


@models.command()
@click.argument("app")
@click.argument("model")
@click.argument("version", required=False)
@_command
def show(app: str, model: str, version: str | None, state: str, in_json: bool) -> None:
    """The card of a VERSION of MODEL, or of its champion."""
    versions = _versions(load_app(app).model(model), state)
    version = version or versions.champion().champion
    if version is None:
        there = ", ".join(versions.names()) or "none yet"
        raise NoVersion(f"Model {model!r} has no champion. Name one of its versions: {there}.")
    card = versions.card(version)
    click.echo(card.text() if in_json else _card_text(card))


@models.command()
@click.argument("app")
@click.argument("model")
@click.argument("version")
@_command
def promote(app: str, model: str, version: str, state: str, in_json: bool) -> None:
    """Make a VERSION of MODEL the champion, once it has been loaded and tried."""
    declared = load_app(app).model(model)
    versions = _versions(declared, state)
    load_version(declared, Path(state), version)
    versions.promote(version)
    _say_champion(versions, in_json)


@models.command()
@click.argument("app")
@click.argument("model")
@_command
def rollback(app: str, model: str, state: str, in_json: bool) -> None:
    """Make the champion before the present one of MODEL the champion again."""
    versions = _versions(load_app(app).model(model), state)
    versions.rollback()
    _say_champion(versions, in_json)


def _versions(model: Model, state: str) -> Versions:
    if model.file is not None:
        raise BadSetting(f"Model {model.name!r} is {model.file.name}, as declared: it has no versions. Give it train=.")
    return Versions(Path(state), model.name)


def _say_champion(versions: Versions, in_json: bool) -> None:
    now = versions.champion()
    before = f", before it {now.earlier[-1]}" if now.earlier else ""
    text = f"{versions.model}: version {now.champion} is the champion{before}"
    click.echo(json.dumps({"model": versions.model, **asdict(now)}) if in_json else text)


def _rows(model: Model, state: Path) -> list[dict[str, Any]]:
    if model.file is not None:
        return [{"model": model.name, "version": model.file.name, "champion": True, "metrics": {}}]
    versions = Versions(state, model.name)
    champion = versions.champion().champion
    cards = [versions.card(name) for name in versions.names()]
    return [
        {
            "model": model.name,
            "version": card.version,
            "champion": card.version == champion,
            "created_at": card.created_at,
            "metrics": card.metrics,
        }
        for card in cards
    ]


def _line(row: dict[str, Any]) -> str:
    measures = ", ".join(f"{name} {value:.4g}" for name, value in row["metrics"].items() if value is not None)
    mark = "champion" if row["champion"] else ""
    return f"{row['model']:<20}{row['version']:<14}{mark:<10}{row.get('created_at', ''):<28}{measures}".rstrip()


def _card_text(card: Card) -> str:
    shown = {name: value for name, value in asdict(card).items() if name not in {"features", "reference", "format"}}
    lines = [f"{name:<20}{value if isinstance(value, str) else json.dumps(value)}" for name, value in shown.items()]
    inputs = [f"  {one['name']:<26}{one['type']:<10}{one.get('of', '')}" for one in card.features]
    return "\n".join([*lines, "features", *inputs])
