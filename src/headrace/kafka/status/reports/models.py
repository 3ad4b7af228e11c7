"""The reports of a model: its scores, its outcomes, its drift and its quality."""

from dataclasses import dataclass, field
from typing import Any

from headrace.kafka.status.reports.progress_report import ProgressReport


@dataclass(frozen=True)
class ScorerProgress(ProgressReport):
    """The counts of one scorer for one model since its start, and its current error."""

    kind = "scorer"
    subject_fields = ("scored", "scorer")
    key_prefix = "score"

    scored: str
    scorer: str
    at_us: int
    lag: int
    predictions: list[list[Any]]  # version, role and count
    degraded: dict[str, int]  # by reason
    delays: list[int]  # from arrival to decision: the count of each bucket
    delay_seconds: float
    trouble: str = ""


@dataclass(frozen=True)
class OutcomesProgress(ProgressReport):
    """The outcomes of a model's predictions so far, and the position of the label join."""

    kind = "outcomes"
    subject_fields = ("judged",)

    judged: str
    at_us: int
    running: bool
    clock_us: int  # the time up to which the log has been read
    lag: int
    counts: list[list[Any]]  # version, role, status and count
    delays: list[int]  # of first labels: the count of each bucket
    delay_seconds: float
    state_rows: int
    state_bytes: int
    down_since_us: int | None = None  # since when it fails; None while it runs
    error: str = ""  # why it failed last, in one sentence


@dataclass(frozen=True)
class DriftProgress(ProgressReport):
    """The drift of a model: its served inputs compared with its champion's training data."""

    kind = "drift"
    subject_fields = ("compared",)

    compared: str
    at_us: int
    version: str | None
    window_us: int
    rows: int  # of the window
    multiple: float | None  # the greatest of any column, above 1 is drift; None if no column can be tested
    columns: dict[str, float]
    statistics: dict[str, dict[str, float]]
    ranked: list[dict[str, Any]]  # the drifted columns, the heaviest first
    fates: dict[str, int]  # the records by result
    lag: int
    error_share: float | None = None  # the recent share of wrong outcomes, if labels arrive
    error_changes: dict[str, int] = field(default_factory=dict)  # the number of suspected and confirmed increases
    down_since_us: int | None = None  # since when it fails; None while it runs
    error: str = ""  # why it failed last, in one sentence


@dataclass(frozen=True)
class QualityProgress(ProgressReport):
    """The quality of a model by its due outcomes; None if there are too few."""

    kind = "quality"
    subject_fields = ("measured",)

    measured: str
    at_us: int
    lost: float | None  # the significant loss, as a share of its card's quality
    coverage: float | None  # the share of predictions with a label
