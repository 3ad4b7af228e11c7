"""`headrace models ls|show|promote|… APP`: the versions of an app's models, and which of them scores."""

import json
import re
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import Any, TypeVar

import click

from headrace.cli.grammar import VerbGroup
from headrace.cli.locations import location
from headrace.cli.registry import REGISTRY, require_known_registry, tell_registry
from headrace.cli.settings import BadSetting
from headrace.declare.app import load_app
from headrace.declare.model import Model
from headrace.score.card import Card, in_words
from headrace.score.champions import load_version
from headrace.score.learner import version_of
from headrace.score.registry import publish as publish_to
from headrace.score.registry import registry_uri
from headrace.score.roles import Champion
from headrace.score.versions import NoVersion, Versions

Command = TypeVar("Command", bound=Callable[..., Any])
_SHARE = re.compile(r"([0-9]{1,3}(?:\.[0-9]{1,6})?)%", re.ASCII)


@click.group(cls=VerbGroup)
def models() -> None:
    """The versions of an app's models, and which of them scores."""


def _command(command: Command) -> Command:
    return location("state")(click.option("--json", "in_json", is_flag=True, help="As JSON.")(command))


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
    click.echo(card.text() if in_json else _card_text(card, versions.champion()))


@models.command()
@click.argument("app")
@click.argument("model")
@click.argument("version")
@REGISTRY
@_command
def promote(app: str, model: str, version: str, registry: str | None, state: str, in_json: bool) -> None:
    """Make a VERSION of MODEL the champion, once it has been loaded and tried."""
    require_known_registry(registry, Path(state))
    versions = _tried(app, model, version, state)
    versions.promote(version)
    tell_registry(registry, Path(state), versions)
    _say_champion(versions, in_json)


@models.command()
@click.argument("app")
@click.argument("model")
@REGISTRY
@_command
def rollback(app: str, model: str, registry: str | None, state: str, in_json: bool) -> None:
    """Make the champion before the present one of MODEL the champion again."""
    require_known_registry(registry, Path(state))
    versions = _versions(load_app(app).model(model), state)
    versions.rollback()
    tell_registry(registry, Path(state), versions)
    _say_champion(versions, in_json)


@models.command()
@click.argument("app")
@click.argument("model")
@click.argument("version")
@click.option("--off", is_flag=True, help="Score it no more.")
@_command
def shadow(app: str, model: str, version: str, off: bool, state: str, in_json: bool) -> None:
    """Score a VERSION of MODEL beside the champion, for the record: it never answers."""
    if off:
        versions = _versions(load_app(app).model(model), state)
        versions.withdraw(version)
    else:
        versions = _tried(app, model, version, state)
        versions.challenge(version)
    _say_champion(versions, in_json)


@models.command()
@click.argument("app")
@click.argument("model")
@click.argument("version")
@click.argument("share")
@_command
def split(app: str, model: str, version: str, share: str, state: str, in_json: bool) -> None:
    """Let a VERSION of MODEL answer for a SHARE of the keys, such as 10%; for which, their hash tells."""
    part = _part(share, version)
    versions = _tried(app, model, version, state)
    versions.challenge(version, part)
    _say_champion(versions, in_json)


@models.command()
@click.argument("app")
@click.argument("model")
@REGISTRY
@_command
def publish(app: str, model: str, registry: str | None, state: str, in_json: bool) -> None:
    """Tell the registry of every version of MODEL that it does not have, and which is champion."""
    if not registry:
        raise BadSetting('--registry is missing. Write --registry mlflow, or registry = "mlflow" in headrace.toml.')
    new = publish_to(registry_uri(registry, Path(state)), _versions(load_app(app).model(model), state))
    text = f"{model}: {len(new)} versions were new to the registry{': ' + ', '.join(new) if new else ''}"
    click.echo(json.dumps({"model": model, "published": new}) if in_json else text)


def _tried(app: str, model: str, version: str, state: str) -> Versions:
    """The versions of a model, one of which was loaded and tried."""
    declared = load_app(app).model(model)
    versions = _versions(declared, state)
    load_version(declared, Path(state), version)
    return versions


def _part(share: str, version: str) -> float:
    found = _SHARE.fullmatch(share)
    part = float(found[1]) / 100 if found else 0.0
    if not 0 < part <= 1:
        raise BadSetting(
            f"{share!r} is no share of the keys. Write one above 0% and up to 100%, such as 10%; "
            f"to score version {version} without answering, headrace models shadow."
        )
    return part


def _versions(model: Model, state: str) -> Versions:
    if model.train is None:
        is_ = "learns as it goes" if model.file is None else f"is {model.file.name}, as declared"
        raise BadSetting(f"Model {model.name!r} {is_}: it has no versions. Give it train=.")
    return Versions(Path(state), model.name)


def _say_champion(versions: Versions, in_json: bool) -> None:
    now = versions.champion()
    before = f", before it {now.earlier[-1]}" if now.earlier else ""
    beside = "".join(f"; version {one}: {now.role(one)}" for one in now.challengers)
    text = f"{versions.model}: version {now.champion} is the champion{before}{beside}"
    click.echo(json.dumps({"model": versions.model, **asdict(now)}) if in_json else text)


def _rows(model: Model, state: Path) -> list[dict[str, Any]]:
    learned = [] if model.learn is None else [_declared(model, version_of(model), model.learns_alone)]
    if model.train is None:
        return [*([] if model.file is None else [_declared(model, model.file.name, is_champion=True)]), *learned]
    versions = Versions(state, model.name)
    now = versions.champion()
    return [*(_row(versions.card(name), now) for name in versions.names()), *learned]


def _declared(model: Model, version: str, is_champion: bool) -> dict[str, Any]:
    """What is no version of the folder: a declared file, or what is learned."""
    role = "champion" if is_champion else "shadow"
    return {
        "model": model.name,
        "version": version,
        "champion": is_champion,
        "role": role,
        "created_at": "",
        "metrics": {},
    }


def _row(card: Card, now: Champion) -> dict[str, Any]:
    return {
        "model": card.model,
        "version": card.version,
        "champion": card.version == now.champion,
        "role": now.role(card.version),
        "created_at": card.created_at,
        "metrics": card.metrics,
    }


def _line(row: dict[str, Any]) -> str:
    named = f"{row['model']:<20}{row['version']:<18}{row['role']:<12}{row['created_at']:<28}"
    return f"{named}{in_words(row['metrics'])}".rstrip()


def _card_text(card: Card, now: Champion) -> str:
    shown = {name: value for name, value in asdict(card).items() if name not in {"features", "reference", "format"}}
    shown["role"] = now.role(card.version) or "none"
    lines = [f"{name:<20}{value if isinstance(value, str) else json.dumps(value)}" for name, value in shown.items()]
    inputs = [f"  {one['name']:<26}{one['type']:<10}{one.get('of', '')}" for one in card.features]
    return "\n".join([*lines, "features", *inputs])
