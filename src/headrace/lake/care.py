"""Care of the tables: small files made one, old days let go, files nobody needs deleted.

    today       ▁▁▁▁▁▁▁▁▁▁▁▁▁ many small files ──▶ █ one, whenever there are many
    yesterday   ▁▁▁ a few                     ──▶ █ one, for good
    day − 90    █                             ──▶   gone, where --lake-retention 90d is set

Each is one commit of the table's log: whoever reads sees the state before it or after it, and so does a restart. Files
that a commit has replaced, or that a crash left behind, are deleted a day later, when no reader holds them any more.
"""

import logging
import threading
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from pathlib import Path

import pyarrow as pa
from deltalake import DeltaTable

from headrace.lake.landing import DAY

LOGGER = logging.getLogger("headrace.lake")
SMALL_BYTES = 64 << 20
MANY_FILES = 50
CARE_SECONDS = 600.0
KEPT_HOURS = 24


@dataclass(frozen=True)
class Care:
    """How a table is cared for."""

    retention: timedelta | None = None
    small_bytes: int = SMALL_BYTES
    many_files: int = MANY_FILES


def care_for(folder: Path, care: Care, today: date) -> None:
    """Compact, let go of old days and delete what is not needed, each if there is reason to."""
    table = DeltaTable(folder)
    if care.retention is not None:
        forget_before(table, today - care.retention)
    for day in crowded_days(table, care, today):
        # One task: the real-time queries need the other cores more.
        table.optimize.compact(
            partition_filters=[(DAY, "=", day.isoformat())], target_size=2 * care.small_bytes, max_concurrent_tasks=1
        )
    table.vacuum(retention_hours=KEPT_HOURS, dry_run=False, full=True)


def forget_before(table: DeltaTable, first_kept: date) -> None:
    """Remove every day before one; a commit only where there is such a day."""
    if any(day < first_kept for day in _days(table)):
        table.delete(f"{DAY} < '{first_kept.isoformat()}'")


def crowded_days(table: DeltaTable, care: Care, today: date) -> list[date]:
    """The days whose small files are to be made one: many of them, or a few of a day that is over."""
    small = Counter(day for day, size in zip(_days(table), _sizes(table), strict=True) if size < care.small_bytes)
    return sorted(day for day, files in small.items() if files >= (2 if day < today else care.many_files))


def _days(table: DeltaTable) -> list[date]:
    days: list[date] = _files(table)[f"partition.{DAY}"].to_pylist()
    return days


def _sizes(table: DeltaTable) -> list[int]:
    sizes: list[int] = _files(table)["size_bytes"].to_pylist()
    return sizes


def _files(table: DeltaTable) -> pa.Table:
    return pa.table(table.get_add_actions(flatten=True))


class Caretaker(threading.Thread):
    """Cares for tables now and then, off the thread that lands."""

    def __init__(self, folders: Sequence[Path], care: Care) -> None:
        super().__init__(name="lake care", daemon=True)
        self._folders, self._care = folders, care
        self._stopped = threading.Event()

    def run(self) -> None:
        while not self._stopped.wait(CARE_SECONDS):
            for folder in self._folders:
                self._care_for(folder)

    def _care_for(self, folder: Path) -> None:
        if self._stopped.is_set():
            return
        try:
            care_for(folder, self._care, datetime.now(UTC).date())
        except Exception as failure:  # noqa: BLE001  # a commit in between, a full disk: the next round tries again
            LOGGER.warning("care of %s was put off: %s", folder, failure)

    def stop(self) -> None:
        self._stopped.set()
