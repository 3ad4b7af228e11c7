"""The formats a lake may have. Which one it has is told by what is there, so nobody who reads it has to say."""

from pathlib import Path
from typing import Any, Literal

from headrace.plugins import import_plugin

FormatName = Literal["delta", "iceberg"]
FORMATS: tuple[FormatName, ...] = ("delta", "iceberg")
CATALOG_FILE = "lake.db"  # no other has this name: a sink that writes beside the lake does not change what it is


def detect_format(lake: Path) -> FormatName | None:
    """The format of a lake: there is a catalogue, or each table has a log of its own; None where nothing is yet."""
    if (lake / CATALOG_FILE).exists():
        return "iceberg"
    return "delta" if any(lake.glob("*/*/_delta_log")) else None


def create_lake(lake: Path, format_name: FormatName | None) -> None:
    """Have a new lake in a format; one that is there stays as it is."""
    if format_name == "iceberg" and detect_format(lake) is None:
        load_format_module(format_name).open_catalog(lake / CATALOG_FILE).close()


def load_format_module(format_name: FormatName) -> Any:
    """The module of a format; what others need is not imported."""
    return import_plugin("lake.formats", format_name, f"A lake in {format_name.title()}")
