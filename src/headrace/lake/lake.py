"""The lake of an app: which topics land in it, where it is, and how it is kept. Nothing here needs Spark."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from functools import cached_property
from pathlib import Path

from headrace.errors import HeadraceError
from headrace.lake.failure_state import summarize_failure
from headrace.lake.formats import FormatName, begin, format_of, room_of
from headrace.lake.landing import Landing
from headrace.lake.table import LakeTable, UnfitForTheLake


class OtherFormat(HeadraceError):
    """A lake that has tables in another format than it is said to have."""

    def __init__(self, folder: Path, found: FormatName, wanted: FormatName) -> None:
        super().__init__(
            f"--lake-format {wanted}: the lake at {str(folder)!r} is in {found.title()}, and one lake has one format. "
            f"Write --lake-format {found}, or give another folder with --lake DIR."
        )


@dataclass(frozen=True)
class Lake:
    """What lands where, how often, and how long it is kept; `format` is that of a new one, Delta without it.

    `begins` has the first offsets of topics that were computed again: rows from before them are removed.
    """

    folder: Path
    broker: str
    landings: tuple[Landing, ...]
    every_s: float = 60.0
    retention: timedelta | None = None
    format: FormatName | None = None
    begins: Mapping[str, Mapping[int, int]] = field(default_factory=dict)

    @cached_property
    def tables(self) -> tuple[LakeTable, ...]:
        return tuple(LakeTable(self.folder, one, self.begins.get(one.counts)) for one in self.landings)


def require_fitting(lake: Lake) -> list[str]:
    """Refuse, before anything is touched, declarations that cannot be added to the tables that are there.

    Gives a sentence for each table that cannot be looked at: it does not land until that is mended, the others do.
    """
    _require_format(lake)
    problems = []
    for table in lake.tables:
        try:
            table.require_fitting()
        except UnfitForTheLake:
            raise
        except Exception as problem:  # noqa: BLE001  # whatever a format says: one bad table is not the others' matter
            problems.append(_problem_text(table, problem))
    return problems


def _require_format(lake: Lake) -> None:
    found = format_of(lake.folder)
    if lake.format is not None:
        room_of(lake.format)  # says what is not installed
        if found not in {None, lake.format}:
            raise OtherFormat(lake.folder, found, lake.format)


def prepare(lake: Lake) -> list[str]:
    """Make the tables ready to be written to; a sentence for each that cannot be, which is tried again as it lands."""
    begin(lake.folder, lake.format)
    _require_format(lake)
    problems = []
    for table in lake.tables:
        try:
            table.prepare()
        except Exception as problem:  # noqa: BLE001  # one bad table is not the others' matter
            problems.append(_problem_text(table, problem))
    return problems


def _problem_text(table: LakeTable, problem: Exception) -> str:
    why = str(problem) if isinstance(problem, HeadraceError) else summarize_failure(problem)
    return f"The table {table.landing.table} of the lake does not land: {why}"
