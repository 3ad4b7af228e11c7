"""Maintenance of the tables: compacts small files, deletes old days, and vacuums unused files.

    today       ▁▁▁▁▁▁▁▁▁▁▁▁▁ many small files ──▶ █ one, whenever there are many
    yesterday   ▁▁▁ a few                     ──▶ █ one, for good
    day − 90    █                             ──▶   gone, where --lake-retention 90d is set

Each is one commit of the table's log: readers see the state before it or after it, and so does a restart. Files
that a commit has replaced, or that a crash left behind, are deleted a day later, when no reader uses them any more.
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

from headrace.kafka.producer.producer import Producer
from headrace.kafka.status.heartbeat import publish_progress
from headrace.kafka.status.reports.lake import MaintenanceProgress
from headrace.lake.failure_state import FailureState
from headrace.lake.formats.table_format import LakeFile, open_table_format

LOGGER = logging.getLogger("headrace.lake")
SMALL_FILE_BYTES = 64 << 20
MIN_FILES_TO_COMPACT = 50
MAINTENANCE_SECONDS = 600.0
RETENTION_HOURS = 24


@dataclass(frozen=True)
class MaintenanceConfig:
    """The maintenance settings of a table."""

    retention: timedelta | None = None
    small_file_bytes: int = SMALL_FILE_BYTES
    min_files_to_compact: int = MIN_FILES_TO_COMPACT


def maintain_table(folder: Path, config: MaintenanceConfig, today: date) -> None:
    """Compact, delete old days and vacuum, each if needed."""
    table = open_table_format(folder)
    if config.retention is not None:
        first_kept_day = today - config.retention
        if any(file.day is not None and file.day < first_kept_day for file in table.list_files()):
            table.delete_days_before(first_kept_day)
    for day in days_to_compact(table.list_files(), config, today):
        table.compact(day, config.small_file_bytes)
    table.vacuum(RETENTION_HOURS)


def days_to_compact(files: Sequence[LakeFile], config: MaintenanceConfig, today: date) -> list[date]:
    """The days whose small files are compacted: with many of them, or a few on a past day."""
    small_files = Counter(file.day for file in files if file.day is not None and file.size < config.small_file_bytes)
    return sorted(
        day for day, count in small_files.items() if count >= (2 if day < today else config.min_files_to_compact)
    )


class MaintenanceThread(threading.Thread):
    """Maintains tables periodically, on a thread of its own; a failing table does not affect the others."""

    def __init__(self, folders: Sequence[Path], config: MaintenanceConfig, producer: Producer | None = None) -> None:
        """With a producer, it reports on each table after maintaining it."""
        super().__init__(name="lake care", daemon=True)
        self._failures = {folder: FailureState() for folder in folders}
        self._config, self._producer = config, producer
        self._stopped = threading.Event()

    def run(self) -> None:
        while not self._stopped.wait(MAINTENANCE_SECONDS):
            for folder in self._failures:
                self._maintain(folder)

    def _maintain(self, folder: Path) -> None:
        if self._stopped.is_set():
            return
        state = self._failures[folder]
        try:
            if (folder / open_table_format(folder).metadata_folder).is_dir():  # else nothing is ingested yet
                maintain_table(folder, self._config, datetime.now(UTC).date())
            state.record_success()
        except Exception as failure:  # noqa: BLE001  # a concurrent commit or a full disk: the next round retries
            state.record_failure(failure)
            LOGGER.warning("Could not maintain the table at %s; it is retried: %s", folder, state.error)
        self._report(folder, state)

    def _report(self, folder: Path, state: FailureState) -> None:
        if self._producer is None:
            return
        table, at_us = "/".join(folder.parts[-2:]), time.time_ns() // 1000
        with suppress(Exception):  # the broker is down: the next round reports
            publish_progress(self._producer, MaintenanceProgress(table, at_us, state.down_since_us, state.error))

    def stop(self) -> None:
        self._stopped.set()
