"""The lake of an app: which topics land in it, where it is, and how it is kept. Nothing here needs Spark."""

from dataclasses import dataclass
from datetime import timedelta
from functools import cached_property
from pathlib import Path

from headrace.lake.delta import LakeTable
from headrace.lake.landing import Landing
from headrace.lake.spans import waiting
from headrace.log.offsets import Offsets


@dataclass(frozen=True)
class Lake:
    """What lands where, how often, and how long it is kept."""

    folder: Path
    broker: str
    landings: tuple[Landing, ...]
    every_s: float = 60.0
    retention: timedelta | None = None

    @cached_property
    def tables(self) -> tuple[LakeTable, ...]:
        return tuple(LakeTable(self.folder, landing) for landing in self.landings)


def require_fitting(lake: Lake) -> None:
    """Refuse, before anything is touched, declarations that cannot be added to the tables that are there."""
    for table in lake.tables:
        table.require_fitting()


def prepare(lake: Lake) -> None:
    """Make the tables ready to be written to; refuses a log that is another one than was landed."""
    require_fitting(lake)
    offsets = Offsets(lake.broker)
    for table in lake.tables:
        table.prepare()
        waiting(table, offsets)
