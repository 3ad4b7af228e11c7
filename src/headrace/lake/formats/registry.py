"""The registry of lake formats; readers detect the format of a lake from its files."""

from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from headrace.plugins import Driver, PluginEntry, PluginRegistry, option

if TYPE_CHECKING:
    from headrace.lake.formats.table_format import TableFormat

FormatName = str
CATALOG_FILE = "lake.db"  # a unique name, so that a sink that writes next to the lake does not change its format


@dataclass(frozen=True)
class FormatTraits:
    """The differences between formats, for the table in the docs."""

    offsets: str = field(metadata=option("offsets, in the same commit as the files"))
    maintenance: str = field(metadata=option("compaction, retention, vacuum of files a day after they were replaced"))
    history: str = field(metadata=option("history of a table (time travel)"))
    moving: str = field(metadata=option("the folder is moved or renamed"))
    small_integers: str = field(metadata=option("`tinyint`, `smallint`"))
    foreign_changes: str = field(metadata=option("rows that another tool has deleted or changed"))


@dataclass(frozen=True, kw_only=True)
class FormatEntry(PluginEntry[Any]):
    """A format; `marker` is a pattern of files that every lake of this format has, and no other."""

    marker: str
    traits: FormatTraits

    def is_at(self, lake: Path) -> bool:
        return any(lake.glob(self.marker))

    def load_format(self) -> "type[TableFormat]":
        """The class of its tables; imports only the drivers that it needs."""
        format_class: type[TableFormat] = self.load(f"A lake in {self.title}")
        return format_class


ICEBERG = FormatEntry(
    "iceberg",
    "Iceberg",
    "headrace.lake.formats.iceberg:IcebergFormat",
    Driver("pyiceberg", extra="iceberg"),
    marker=CATALOG_FILE,
    traits=FormatTraits(
        offsets="properties `headrace:…` of the table",
        maintenance="yes; by one thread of the ingesting process",
        history="a day, 100 snapshots at most",
        moving="does not work: Iceberg stores absolute paths",
        small_integers="`int`",
        foreign_changes="refused, unless it rewrote the files",
    ),
)
DELTA = FormatEntry(
    "delta",
    "Delta",
    "headrace.lake.formats.delta:DeltaFormat",
    marker="*/*/_delta_log",
    traits=FormatTraits(
        offsets="application transactions",
        maintenance="yes",
        history="a day",
        moving="works",
        small_integers="unchanged",
        foreign_changes="refused, unless it rewrote the files",
    ),
)
LAKE_FORMATS = PluginRegistry("lake format", "lake.md", [DELTA, ICEBERG])
DEFAULT_FORMAT = DELTA  # of a new lake: a lake without tables has no marker
FORMATS = LAKE_FORMATS.names


def detect_format(lake: Path) -> FormatName | None:
    """The format of a lake, by its catalogue or its tables' logs; None for an empty one."""
    return next((entry.name for entry in (*_other_formats(), DEFAULT_FORMAT) if entry.is_at(lake)), None)


def table_format_entry(lake: Path) -> FormatEntry:
    """The format of a lake's tables, or the default of an empty lake."""
    return next((entry for entry in _other_formats() if entry.is_at(lake)), DEFAULT_FORMAT)


def create_lake(lake: Path, format_name: FormatName | None) -> None:
    """Mark a new lake with a format; an existing lake stays unchanged."""
    if format_name is not None and detect_format(lake) is None:
        LAKE_FORMATS[format_name].load_format().create_lake(lake)


def _other_formats() -> list[FormatEntry]:
    return [entry for entry in LAKE_FORMATS if entry is not DEFAULT_FORMAT]
