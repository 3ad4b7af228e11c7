"""Kinds of things of which each has a module of its own: what the others need is not imported, nor installed."""

from importlib import import_module
from typing import Any

from headrace.errors import HeadraceError


class DriverMissing(HeadraceError):
    """What a kind needs is not installed."""


def import_plugin(package: str, plugin: str, required_by: str, name: str | None = None) -> Any:
    """Import the module of a plugin, called as the plugin is unless `name` says otherwise.

    Where the plugin's extra is not installed, says who needs it and how to install it.
    """
    try:
        return import_module(f"headrace.{package}.{name or plugin}")
    except ModuleNotFoundError as error:
        raise DriverMissing(
            f"{required_by} needs {error.name}. Install it: pip install 'headrace[{plugin}]'."
        ) from error
