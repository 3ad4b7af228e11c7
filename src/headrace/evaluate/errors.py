"""Whether a model was right, outcome by outcome: what is added to gold/MODEL_outcomes, handed to River's detectors.

log of the table   … 41   42 (compacted: no news)   43       it is followed, commit by commit;
                                                     └─▶ errors   a start goes through what it still has
"""

import logging
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from headrace.declare.model import Model
from headrace.evaluate.drift.sequential import Change, ErrorWatch
from headrace.lake.logs import log_of
from headrace.store.recent import Recent

LOGGER = logging.getLogger("headrace.evaluate")
KNOWN = pa.array(["matched", "defaulted"])
READ = ["version", "role", "minute_us", "score", "state_before", "state_after", "label_after"]
EVEN = 0.5
COMMITS_AT_ONCE = 500
VERSIONS_AT_MOST = 8


def is_followed(model: Model) -> bool:
    """Whether a model can be right or wrong: one that tells classes, of which labels come."""
    return model.labels is not None and model.labels.task == "classification"


class Errors:
    """Follows the outcomes of a model's champions; a version has a watch of its own."""

    def __init__(self, outcomes: Path, model: Model) -> None:
        self.told: Counter[str] = Counter()
        self._log, self._model, self._next = log_of(outcomes.resolve()), model, 0
        self._least = min((least for _, least in model.thresholds), default=EVEN)
        self._watches: Recent[str, ErrorWatch] = Recent(VERSIONS_AT_MOST)

    def look(self) -> bool:
        """Take what was committed since, some of it where that is much; whether there is more."""
        commits = self._log.commits(self._next)
        for commit in commits[:COMMITS_AT_ONCE]:
            for file in self._log.added(commit):
                self._take(file)
            self._next = commit + 1
        return len(commits) > COMMITS_AT_ONCE

    def share(self, version: str | None) -> float | None:
        """The share of wrong ones lately, of a version of which outcomes are known."""
        watch = self._watches.get(version or "")
        return None if watch is None else watch.share

    def _take(self, file: Path) -> None:
        if not file.exists():  # compacted and let go of, a day ago
            return
        for version, wrong in _outcomes(pq.ParquetFile(file).read(READ), self._least):
            if version not in self._watches:
                self._watches[version] = ErrorWatch()
            change = self._watches[version].update(wrong)
            if change is not None:
                self._tell(version, change)

    def _tell(self, version: str, change: Change) -> None:
        self.told["confirmed" if change.confirmed else "suspected"] += 1
        word = "are" if change.confirmed else "may be"
        LOGGER.warning(
            "%s version %s: errors %s more, %.3g after %.3g of outcomes",
            self._model.name, version, word, change.since, change.before,
        )  # fmt: skip


def _outcomes(changes: pa.Table, least: float) -> Iterator[tuple[str, float]]:
    """Of each champion's prediction whose outcome became known, in their order, whether it was wrong."""
    was, is_ = (pc.is_in(changes[f"state_{side}"], KNOWN) for side in ("before", "after"))
    first = pc.and_(pc.and_(is_, pc.invert(was)), pc.equal(changes["role"], "champion"))
    for row in changes.filter(first).sort_by("minute_us").to_pylist():
        score, label = row["score"], row["label_after"]
        if score is not None and score == score and label in {0.0, 1.0}:  # noqa: PLR0124  # NaN is no decision
            yield row["version"], float((score >= least) != (label == 1.0))
