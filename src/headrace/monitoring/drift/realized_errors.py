"""Feeds realised errors to River's detectors, outcome by outcome, as they are added to gold/MODEL_outcomes.

log of the table   … 41   42 (compacted: no news)   43       it is followed, commit by commit;
                                                     └─▶ errors   a start reads all remaining commits
"""

import logging
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from headrace.declare.models.model import Model
from headrace.lake.formats.table_format import open_table_format
from headrace.monitoring.drift.sequential_detection import ErrorDriftDetector, ErrorRateChange
from headrace.online_store.bounded_cache import BoundedCache

LOGGER = logging.getLogger("headrace.evaluate")
KNOWN_STATES = pa.array(["matched", "defaulted"])
COLUMNS_READ = ["version", "role", "minute_us", "score", "state_before", "state_after", "label_after"]
DEFAULT_THRESHOLD = 0.5
MAX_COMMITS_PER_POLL = 500
MAX_VERSIONS = 8


def has_tracked_errors(model: Model) -> bool:
    """Whether a model can be right or wrong: a classifier with labels."""
    return model.labels is not None and model.labels.task == "classification"


class ErrorTracker:
    """Follows the outcomes of a model's champions, with a detector for each version."""

    def __init__(self, outcomes_folder: Path, model: Model) -> None:
        self.change_counts: Counter[str] = Counter()
        self._table_log, self._model, self._next_commit = open_table_format(outcomes_folder.resolve()), model, 0
        self._threshold = min((threshold for _, threshold in model.thresholds), default=DEFAULT_THRESHOLD)
        self._detectors: BoundedCache[str, ErrorDriftDetector] = BoundedCache(MAX_VERSIONS)

    def poll_commits(self) -> bool:
        """Read the commits since the last call, in portions; returns whether there are more."""
        commits = self._table_log.list_commits(self._next_commit)
        for commit in commits[:MAX_COMMITS_PER_POLL]:
            for file in self._table_log.list_added_files(commit):
                self._process_file(file)
            self._next_commit = commit + 1
        return len(commits) > MAX_COMMITS_PER_POLL

    def error_share(self, version: str | None) -> float | None:
        """The recent error rate of a version with known outcomes."""
        detector = self._detectors.get(version or "")
        return None if detector is None else detector.error_share

    def _process_file(self, file: Path) -> None:
        if not file.exists():  # compacted, and vacuumed a day later
            return
        for version, error in _first_errors(pq.ParquetFile(file).read(COLUMNS_READ), self._threshold):
            if version not in self._detectors:
                self._detectors[version] = ErrorDriftDetector()
            change = self._detectors[version].update(error)
            if change is not None:
                self._report_change(version, change)

    def _report_change(self, version: str, change: ErrorRateChange) -> None:
        self.change_counts["confirmed" if change.is_confirmed else "suspected"] += 1
        verb = "are" if change.is_confirmed else "may be"
        LOGGER.warning(
            "%s version %s: errors %s more, %.3g after %.3g of outcomes",
            self._model.name, version, verb, change.rate_since, change.rate_before,
        )  # fmt: skip


def _first_errors(changes: pa.Table, threshold: float) -> Iterator[tuple[str, float]]:
    """The errors of the champion's predictions whose outcome became known, in their order."""
    was_known, is_known = (pc.is_in(changes[f"state_{side}"], KNOWN_STATES) for side in ("before", "after"))
    is_first = pc.and_(pc.and_(is_known, pc.invert(was_known)), pc.equal(changes["role"], "champion"))
    for row in changes.filter(is_first).sort_by("minute_us").to_pylist():
        score, label = row["score"], row["label_after"]
        if score is not None and score == score and label in {0.0, 1.0}:  # noqa: PLR0124  # NaN is not a decision
            yield row["version"], float((score >= threshold) != (label == 1.0))
