"""The lake of an app: which topics land in it, where it is, and how it is kept. Nothing here needs Spark."""

from dataclasses import dataclass
from datetime import timedelta
from functools import cached_property
from pathlib import Path

from headrace.errors import HeadraceError
from headrace.lake.formats import FormatName, begin, format_of, room_of
from headrace.lake.landing import Landing
from headrace.lake.spans import waiting
from headrace.lake.table import LakeTable
from headrace.log.offsets import Offsets


class OtherFormat(HeadraceError):
    """A lake that has tables in another format than it is said to have."""

    def __init__(self, folder: Path, found: FormatName, wanted: FormatName) -> None:
        super().__init__(
            f"--lake-format {wanted}: the lake at {str(folder)!r} is in {found.title()}, and one lake has one format. "
            f"Write --lake-format {found}, or give another folder with --lake DIR."
        )


@dataclass(frozen=True)
class Lake:
    """What lands where, how often, and how long it is kept; `format` is that of a new one, Delta without it."""

    folder: Path
    broker: str
    landings: tuple[Landing, ...]
    every_s: float = 60.0
    retention: timedelta | None = None
    format: FormatName | None = None

    @cached_property
    def tables(self) -> tuple[LakeTable, ...]:
        return tuple(LakeTable(self.folder, landing) for landing in self.landings)


def require_fitting(lake: Lake) -> None:
    """Refuse, before anything is touched, declarations that cannot be added to the tables that are there."""
    found = format_of(lake.folder)
    if lake.format is not None:
        room_of(lake.format)  # says what is not installed
        if found not in {None, lake.format}:
            raise OtherFormat(lake.folder, found, lake.format)
    for table in lake.tables:
        table.require_fitting()


def prepare(lake: Lake) -> None:
    """Make the tables ready to be written to; refuses a log that is another one than was landed."""
    begin(lake.folder, lake.format)
    require_fitting(lake)
    offsets = Offsets(lake.broker)
    for table in lake.tables:
        table.prepare()
        waiting(table, offsets)
