"""The formats a lake may have. Which one it has is told by what is there, so nobody who reads it has to say."""

from pathlib import Path
from typing import Any, Literal

from headrace.extras import module_of

FormatName = Literal["delta", "iceberg"]
FORMATS: tuple[FormatName, ...] = ("delta", "iceberg")
CATALOGUE = "lake.db"  # no other has this name: a sink that writes beside the lake does not change what it is


def format_of(lake: Path) -> FormatName | None:
    """The format of a lake: there is a catalogue, or each table has a log of its own; None where nothing is yet."""
    if (lake / CATALOGUE).exists():
        return "iceberg"
    return "delta" if any(lake.glob("*/*/_delta_log")) else None


def begin(lake: Path, wanted: FormatName | None) -> None:
    """Have a new lake in a format; one that is there stays as it is."""
    if wanted == "iceberg" and format_of(lake) is None:
        room_of(wanted).catalogue_of(lake / CATALOGUE).close()


def room_of(kind: FormatName) -> Any:
    """The module of a format; what others need is not imported."""
    return module_of("lake", kind, f"A lake in {kind.title()}")
