"""Kinds of things of which each has a module of its own: what the others need is not imported, nor installed."""

from importlib import import_module
from typing import Any

from headrace.errors import HeadraceError


class DriverMissing(HeadraceError):
    """What a kind needs is not installed."""


def module_of(room: str, kind: str, who: str) -> Any:
    """The module of a kind in a room; where its extra is not installed, says who needs what of it."""
    try:
        return import_module(f"headrace.{room}.{kind}")
    except ModuleNotFoundError as missing:
        raise DriverMissing(f"{who} needs {missing.name}. Install it: pip install 'headrace[{kind}]'.") from missing
