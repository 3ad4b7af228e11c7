"""`--registry mlflow[:URI]`: whatever a command did stands; that a registry was not told of it is said."""

from pathlib import Path
from typing import TYPE_CHECKING

import click

from headrace.errors import HeadraceError

if TYPE_CHECKING:
    from headrace.models.versions.version_store import VersionStore


def require_known_registry(registry: str | None, state: Path) -> None:
    """Refuse a registry that is none, before anything is done."""
    from headrace.models.versions.mlflow_registry import registry_uri

    if registry:
        registry_uri(registry, state)


def publish_to_registry(registry: str | None, state: Path, versions: "VersionStore") -> None:
    """Tell the registry, where there is one, what has changed."""
    from headrace.models.versions.mlflow_registry import publish_versions, registry_uri

    if not registry:
        return
    try:
        publish_versions(registry_uri(registry, state), versions)
    except HeadraceError as error:
        click.echo(f"headrace: {error}", err=True)
