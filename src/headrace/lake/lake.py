"""The lake of an app: its table mappings, its folder, and its retention. No Spark is needed here."""

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
    """A lake whose existing tables have another format than the requested one."""

    def __init__(self, folder: Path, existing: FormatName, requested: FormatName) -> None:
        super().__init__(
            f"--lake-format {requested}: the lake at {str(folder)!r} is in {LAKE_FORMATS[existing].title}, and one "
            "lake has one format. "
            f"Write --lake-format {existing}, or give another folder with --lake DIR."
        )


@dataclass(frozen=True)
class LakeConfig:
    """The mappings, interval and retention of a lake; `format` is that of a new one, Delta by default.

    `first_offsets` are those of rebuilt topics: rows of earlier offsets are removed.
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
    """Reject, before any change, declarations whose rows cannot be added to the existing tables.

    Returns a sentence for each table that cannot be read: it is not ingested until it is repaired, the others are.
    """
    _require_format(lake)
    problems = []
    for table in lake.tables:
        try:
            table.require_compatible()
        except IncompatibleTableError:
            raise
        except Exception as problem:  # noqa: BLE001  # any error of a format: one bad table must not stop the others
            problems.append(_problem_text(table, problem))
    return problems


def _require_format(lake: LakeConfig) -> None:
    existing = detect_format(lake.folder)
    if lake.format is not None:
        LAKE_FORMATS[lake.format].load_format()  # names a missing package
        if existing not in {None, lake.format}:
            raise LakeFormatMismatchError(lake.folder, existing, lake.format)


def prepare_tables(lake: LakeConfig) -> list[str]:
    """Prepare the tables for writing; returns a sentence for each that fails, which ingestion retries."""
    create_lake(lake.folder, lake.format)
    _require_format(lake)
    problems = []
    for table in lake.tables:
        try:
            table.prepare()
        except Exception as problem:  # noqa: BLE001  # one bad table must not stop the others
            problems.append(_problem_text(table, problem))
    return problems


def _problem_text(table: LakeTable, problem: Exception) -> str:
    reason = str(problem) if isinstance(problem, HeadraceError) else summarize_failure(problem)
    return f"The table {table.mapping.table} of the lake is not ingested: {reason}"
