"""`headrace models ls|show|promote|… APP`: the versions of an app's models, and their roles."""

import json
import re
from dataclasses import asdict
from pathlib import Path
from typing import Any

import click

from headrace.cli.command_grammar import VerbGroup
from headrace.declare.app import load_app
from headrace.declare.models.model import Model
from headrace.models.online_learning.learner import learner_version
from headrace.models.versions.model_card import ModelCard, format_metrics
from headrace.models.versions.model_registry import MODEL_REGISTRIES, open_model_registry
from headrace.models.versions.roles import VersionRoles
from headrace.models.versions.version_loader import load_version
from headrace.models.versions.version_store import ModelVersionError, VersionStore
from headrace.runtime.configuration.click_options import apply_options, setting_option
from headrace.runtime.registry_publishing import publish_to_registry, require_known_registry
from headrace.runtime.settings import BadSetting

_common_options = apply_options(
    setting_option("state"), click.option("--json", "in_json", is_flag=True, help="As JSON.")
)
_SHARE_PATTERN = re.compile(r"([0-9]{1,3}(?:\.[0-9]{1,6})?)%", re.ASCII)


@click.group(cls=VerbGroup)
def models() -> None:
    """The versions of an app's models, and their roles."""


@models.command()
@click.argument("app")
@_common_options
def ls(app: str, state: str, in_json: bool) -> None:
    """List every version of every model of APP."""
    rows = [row for model in load_app(app).models for row in _model_rows(model, Path(state))]
    click.echo(json.dumps(rows) if in_json else "\n".join(map(_format_row, rows)) or "no models")


@models.command()
@click.argument("app")
@click.argument("model")
@click.argument("version", required=False)
@_common_options
def show(app: str, model: str, version: str | None, state: str, in_json: bool) -> None:
    """Show the card of a VERSION of MODEL, or of its champion."""
    versions = _require_versions(load_app(app).model(model), state)
    version = version or versions.load_roles().champion
    if version is None:
        version_names = ", ".join(versions.list_versions()) or "none yet"
        raise ModelVersionError(f"Model {model!r} has no champion. Name one of its versions: {version_names}.")
    card = versions.load_card(version)
    click.echo(card.to_json() if in_json else _format_card(card, versions.load_roles()))


@models.command()
@click.argument("app")
@click.argument("model")
@click.argument("version")
@setting_option("registry")
@_common_options
def promote(app: str, model: str, version: str, registry: str | None, state: str, in_json: bool) -> None:
    """Make a VERSION of MODEL the champion, after loading and trying it."""
    require_known_registry(registry)
    versions = _load_and_check_version(app, model, version, state)
    versions.promote(version)
    publish_to_registry(registry, Path(state), versions)
    _print_champion(versions, in_json)


@models.command()
@click.argument("app")
@click.argument("model")
@setting_option("registry")
@_common_options
def rollback(app: str, model: str, registry: str | None, state: str, in_json: bool) -> None:
    """Make the previous champion of MODEL the champion again."""
    require_known_registry(registry)
    versions = _require_versions(load_app(app).model(model), state)
    versions.rollback()
    publish_to_registry(registry, Path(state), versions)
    _print_champion(versions, in_json)


@models.command()
@click.argument("app")
@click.argument("model")
@click.argument("version")
@click.option("--off", is_flag=True, help="Stop scoring it.")
@_common_options
def shadow(app: str, model: str, version: str, off: bool, state: str, in_json: bool) -> None:
    """Score a VERSION of MODEL in shadow: its scores are logged and never served."""
    if off:
        versions = _require_versions(load_app(app).model(model), state)
        versions.remove_challenger(version)
    else:
        versions = _load_and_check_version(app, model, version, state)
        versions.add_challenger(version)
    _print_champion(versions, in_json)


@models.command()
@click.argument("app")
@click.argument("model")
@click.argument("version")
@click.argument("share")
@_common_options
def split(app: str, model: str, version: str, share: str, state: str, in_json: bool) -> None:
    """Serve a SHARE of the keys, such as 10%, with a VERSION of MODEL; the hash of a key decides."""
    fraction = _parse_share(share, version)
    versions = _load_and_check_version(app, model, version, state)
    versions.add_challenger(version, fraction)
    _print_champion(versions, in_json)


@models.command()
@click.argument("app")
@click.argument("model")
@setting_option("registry")
@_common_options
def publish(app: str, model: str, registry: str | None, state: str, in_json: bool) -> None:
    """Register every version of MODEL that the registry lacks, and which one is the champion."""
    if not registry:
        first = MODEL_REGISTRIES.names[0]
        raise BadSetting(f'--registry is missing. Write --registry {first}, or registry = "{first}" in headrace.toml.')
    model_registry = open_model_registry(registry, Path(state))
    published_versions = model_registry.publish_versions(_require_versions(load_app(app).model(model), state))
    text = (
        f"{model}: {len(published_versions)} versions were new to the "
        f"registry{': ' + ', '.join(published_versions) if published_versions else ''}"
    )
    click.echo(json.dumps({"model": model, "published": published_versions}) if in_json else text)


def _load_and_check_version(app: str, model: str, version: str, state: str) -> VersionStore:
    """The versions of a model, after loading and trying one of them."""
    declared_model = load_app(app).model(model)
    versions = _require_versions(declared_model, state)
    load_version(declared_model, Path(state), version)
    return versions


def _parse_share(share: str, version: str) -> float:
    share_match = _SHARE_PATTERN.fullmatch(share)
    fraction = float(share_match[1]) / 100 if share_match else 0.0
    if not 0 < fraction <= 1:
        raise BadSetting(
            f"{share!r} is no share of the keys. Write one above 0% and up to 100%, such as 10%; "
            f"to score version {version} without answering, headrace models shadow."
        )
    return fraction


def _require_versions(model: Model, state: str) -> VersionStore:
    if model.train is None:
        limitation = "learns online" if model.file is None else f"is {model.file.name}, as declared"
        raise BadSetting(f"Model {model.name!r} {limitation}: it has no versions. Give it train=.")
    return VersionStore(Path(state), model.name)


def _print_champion(versions: VersionStore, in_json: bool) -> None:
    roles = versions.load_roles()
    previous_text = f", before it {roles.earlier[-1]}" if roles.earlier else ""
    challengers_text = "".join(
        f"; version {challenger}: {roles.describe_role(challenger)}" for challenger in roles.challengers
    )
    text = f"{versions.model}: version {roles.champion} is the champion{previous_text}{challengers_text}"
    click.echo(json.dumps({"model": versions.model, **asdict(roles)}) if in_json else text)


def _model_rows(model: Model, state: Path) -> list[dict[str, Any]]:
    unversioned_rows = (
        [] if model.learn is None else [_unversioned_row(model, learner_version(model), model.learns_alone)]
    )
    if model.train is None:
        return [
            *([] if model.file is None else [_unversioned_row(model, model.file.name, is_champion=True)]),
            *unversioned_rows,
        ]
    versions = VersionStore(state, model.name)
    roles = versions.load_roles()
    return [*(_version_row(versions.load_card(name), roles) for name in versions.list_versions()), *unversioned_rows]


def _unversioned_row(model: Model, version: str, is_champion: bool) -> dict[str, Any]:
    """The row of a model outside the version folder: a declared file, or an online model."""
    role = "champion" if is_champion else "shadow"
    return {
        "model": model.name,
        "version": version,
        "champion": is_champion,
        "role": role,
        "created_at": "",
        "metrics": {},
    }


def _version_row(card: ModelCard, roles: VersionRoles) -> dict[str, Any]:
    return {
        "model": card.model,
        "version": card.version,
        "champion": card.version == roles.champion,
        "role": roles.describe_role(card.version),
        "created_at": card.created_at,
        "metrics": card.metrics,
    }


def _format_row(row: dict[str, Any]) -> str:
    columns = f"{row['model']:<20}{row['version']:<18}{row['role']:<12}{row['created_at']:<28}"
    return f"{columns}{format_metrics(row['metrics'])}".rstrip()


def _format_card(card: ModelCard, roles: VersionRoles) -> str:
    card_fields = {
        name: value for name, value in asdict(card).items() if name not in {"features", "reference", "format"}
    }
    card_fields["role"] = roles.describe_role(card.version) or "none"
    lines = [
        f"{name:<20}{value if isinstance(value, str) else json.dumps(value)}" for name, value in card_fields.items()
    ]
    inputs = [f"  {feature['name']:<26}{feature['type']:<10}{feature.get('of', '')}" for feature in card.features]
    return "\n".join([*lines, "features", *inputs])
