"""Care of the tables: small files made one, old days let go, files nobody needs deleted.

    today       ▁▁▁▁▁▁▁▁▁▁▁▁▁ many small files ──▶ █ one, whenever there are many
    yesterday   ▁▁▁ a few                     ──▶ █ one, for good
    day − 90    █                             ──▶   gone, where --lake-retention 90d is set

Each is one commit of the table's log: whoever reads sees the state before it or after it, and so does a restart. Files
that a commit has replaced, or that a crash left behind, are deleted a day later, when no reader holds them any more.
"""

import logging
import threading
import time
from collections import Counter
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from pathlib import Path

from headrace.lake.failure_state import FailureState
from headrace.lake.logs import LakeFile, log_of
from headrace.log.produce import Producer
from headrace.log.progress import MaintenanceProgress, report

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
    log = log_of(folder)
    if care.retention is not None:
        first_kept = today - care.retention
        if any(file.day is not None and file.day < first_kept for file in log.files()):
            log.forget_before(first_kept)
    for day in crowded_days(log.files(), care, today):
        log.compact(day, care.small_bytes)
    log.vacuum(KEPT_HOURS)


def crowded_days(files: Sequence[LakeFile], care: Care, today: date) -> list[date]:
    """The days whose small files are to be made one: many of them, or a few of a day that is over."""
    small = Counter(file.day for file in files if file.day is not None and file.size < care.small_bytes)
    return sorted(day for day, count in small.items() if count >= (2 if day < today else care.many_files))


class Caretaker(threading.Thread):
    """Cares for tables now and then, off the thread that lands; one that fails is no other's matter."""

    def __init__(self, folders: Sequence[Path], care: Care, producer: Producer | None = None) -> None:
        """Tells of each table, once it was cared for, where there is a producer to tell it with."""
        super().__init__(name="lake care", daemon=True)
        self._failures = {folder: FailureState() for folder in folders}
        self._care, self._producer = care, producer
        self._stopped = threading.Event()

    def run(self) -> None:
        while not self._stopped.wait(CARE_SECONDS):
            for folder in self._failures:
                self._care_for(folder)

    def _care_for(self, folder: Path) -> None:
        if self._stopped.is_set():
            return
        state = self._failures[folder]
        try:
            if (folder / log_of(folder).marker).is_dir():  # else nothing has landed yet
                care_for(folder, self._care, datetime.now(UTC).date())
            state.record_success()
        except Exception as failure:  # noqa: BLE001  # a commit in between, a full disk: the next round tries again
            state.record_failure(failure)
            LOGGER.warning("Could not maintain the table at %s, which is tried again: %s", folder, state.error)
        self._report(folder, state)

    def _report(self, folder: Path, state: FailureState) -> None:
        if self._producer is None:
            return
        table, at_us = "/".join(folder.parts[-2:]), time.time_ns() // 1000
        with suppress(Exception):  # a broker that is away: it is told at the next round
            report(self._producer, MaintenanceProgress(table, at_us, state.down_since_us, state.error))

    def stop(self) -> None:
        self._stopped.set()
