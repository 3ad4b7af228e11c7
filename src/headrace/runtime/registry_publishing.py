"""`--registry NAME[:URI]`: publishes versions after a command; a failure is printed, and undoes nothing."""

from pathlib import Path
from typing import TYPE_CHECKING

import click

from headrace.errors import HeadraceError
from headrace.models.versions.model_registry import open_model_registry, require_model_registry

if TYPE_CHECKING:
    from headrace.models.versions.version_store import VersionStore


def require_known_registry(registry: str | None) -> None:
    """Reject an unknown registry before anything is done."""
    if registry:
        require_model_registry(registry)


def publish_to_registry(registry: str | None, state: Path, versions: "VersionStore") -> None:
    """Publish changed versions to the registry, if there is one."""
    if not registry:
        return
    try:
        open_model_registry(registry, state).publish_versions(versions)
    except HeadraceError as error:
        click.echo(f"headrace: {error}", err=True)
