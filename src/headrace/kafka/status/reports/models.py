"""What is reported of a model: its scores, its outcomes, its drift and its quality."""

from dataclasses import dataclass, field
from typing import Any

from headrace.kafka.status.reports.progress_report import ProgressReport


@dataclass(frozen=True)
class ScorerProgress(ProgressReport):
    """What one scorer has done for one model since it started, and what stops it."""

    kind = "scorer"
    subject_fields = ("scored", "scorer")
    key_prefix = "score"

    scored: str
    scorer: str
    at_us: int
    lag: int
    predictions: list[list[Any]]  # version, role and how many
    degraded: dict[str, int]  # by reason
    delays: list[int]  # from arrival to decision: how many in each bucket
    delay_seconds: float
    trouble: str = ""


@dataclass(frozen=True)
class OutcomesProgress(ProgressReport):
    """What came of a model's predictions so far, and how far the join of labels has read."""

    kind = "outcomes"
    subject_fields = ("judged",)

    judged: str
    at_us: int
    running: bool
    clock_us: int  # up to when the log is known to have been read
    lag: int
    counts: list[list[Any]]  # version, role, status and how many
    delays: list[int]  # of first labels: how many in each bucket
    delay_seconds: float
    state_rows: int
    state_bytes: int
    down_since_us: int | None = None  # since when it fails; None while it runs
    error: str = ""  # why it failed last, in one sentence


@dataclass(frozen=True)
class DriftProgress(ProgressReport):
    """What a model is served compared with what its champion was trained on."""

    kind = "drift"
    subject_fields = ("compared",)

    compared: str
    at_us: int
    version: str | None
    window_us: int
    rows: int  # of the window
    multiple: float | None  # the greatest of any column, above 1 is drift; None where nothing can be judged
    columns: dict[str, float]
    statistics: dict[str, dict[str, float]]
    ranked: list[dict[str, Any]]  # what drifted, the heaviest first
    fates: dict[str, int]  # what became of records
    lag: int
    error_share: float | None = None  # of outcomes that are wrong lately, where labels come
    error_changes: dict[str, int] = field(default_factory=dict)  # how often more errors were suspected and confirmed
    down_since_us: int | None = None  # since when it fails; None while it runs
    error: str = ""  # why it failed last, in one sentence


@dataclass(frozen=True)
class QualityProgress(ProgressReport):
    """The quality of a model by the outcomes that are due; None where too little is known."""

    kind = "quality"
    subject_fields = ("measured",)

    measured: str
    at_us: int
    lost: float | None  # the share of its card's quality that is lost beyond doubt
    coverage: float | None  # the share of predictions whose label has come
