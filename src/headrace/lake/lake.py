"""The lake of an app: which topics land in it, where it is, and how it is kept. Nothing here needs Spark."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from functools import cached_property
from pathlib import Path

from headrace.errors import HeadraceError
from headrace.lake.failure_state import summarize_failure
from headrace.lake.formats.registry import LAKE_FORMATS, FormatName, create_lake, detect_format
from headrace.lake.ingestion.table_mapping import TableMapping
from headrace.lake.lake_table import IncompatibleTableError, LakeTable


class LakeFormatMismatchError(HeadraceError):
    """A lake that has tables in another format than it is said to have."""

    def __init__(self, folder: Path, existing: FormatName, requested: FormatName) -> None:
        super().__init__(
            f"--lake-format {requested}: the lake at {str(folder)!r} is in {LAKE_FORMATS[existing].title}, and one "
            "lake has one format. "
            f"Write --lake-format {existing}, or give another folder with --lake DIR."
        )


@dataclass(frozen=True)
class LakeConfig:
    """What lands where, how often, and how long it is kept; `format` is that of a new one, Delta without it.

    `begins` has the first offsets of topics that were computed again: rows from before them are removed.
    """

    folder: Path
    broker: str
    mappings: tuple[TableMapping, ...]
    ingest_interval_s: float = 60.0
    retention: timedelta | None = None
    format: FormatName | None = None
    first_offsets: Mapping[str, Mapping[int, int]] = field(default_factory=dict)

    @cached_property
    def tables(self) -> tuple[LakeTable, ...]:
        return tuple(
            LakeTable(self.folder, mapping, self.first_offsets.get(mapping.offset_topic)) for mapping in self.mappings
        )


def require_compatible_tables(lake: LakeConfig) -> list[str]:
    """Refuse, before anything is touched, declarations that cannot be added to the tables that are there.

    Gives a sentence for each table that cannot be looked at: it does not land until that is mended, the others do.
    """
    _require_format(lake)
    problems = []
    for table in lake.tables:
        try:
            table.require_compatible()
        except IncompatibleTableError:
            raise
        except Exception as problem:  # noqa: BLE001  # whatever a format says: one bad table is not the others' matter
            problems.append(_problem_text(table, problem))
    return problems


def _require_format(lake: LakeConfig) -> None:
    existing = detect_format(lake.folder)
    if lake.format is not None:
        LAKE_FORMATS[lake.format].load_format()  # says what is not installed
        if existing not in {None, lake.format}:
            raise LakeFormatMismatchError(lake.folder, existing, lake.format)


def prepare_tables(lake: LakeConfig) -> list[str]:
    """Make the tables ready to be written to; a sentence for each that cannot be, which is tried again as it lands."""
    create_lake(lake.folder, lake.format)
    _require_format(lake)
    problems = []
    for table in lake.tables:
        try:
            table.prepare()
        except Exception as problem:  # noqa: BLE001  # one bad table is not the others' matter
            problems.append(_problem_text(table, problem))
    return problems


def _problem_text(table: LakeTable, problem: Exception) -> str:
    reason = str(problem) if isinstance(problem, HeadraceError) else summarize_failure(problem)
    return f"The table {table.mapping.table} of the lake does not land: {reason}"
