"""What is reported of a model: its scores, its outcomes, its drift and its quality."""

from dataclasses import dataclass, field
from typing import Any

from headrace.kafka.status.reports.progress_report import ProgressReport


@dataclass(frozen=True)
class ScorerProgress(ProgressReport):
    """What one scorer has done of one model since it began: how many predictions of each version and role, how many
    were degraded by what, how many took how long from arrival to decision, what is left in the log, and what keeps it
    from scoring now.
    """

    kind = "scorer"
    subject_fields = ("scored", "scorer")
    key_prefix = "score"

    scored: str
    scorer: str
    at_us: int
    lag: int
    predictions: list[list[Any]]
    degraded: dict[str, int]
    delays: list[int]
    delay_seconds: float
    trouble: str = ""


@dataclass(frozen=True)
class OutcomesProgress(ProgressReport):
    """What came of a model's predictions so far: how many of each version and role stand how, how long first labels
    took, up to when the log is known to have been read, what is remembered, and what is left in the log.
    """

    kind = "outcomes"
    subject_fields = ("judged",)

    judged: str
    at_us: int
    running: bool
    clock_us: int
    lag: int
    counts: list[list[Any]]
    delays: list[int]
    delay_seconds: float
    state_rows: int
    state_bytes: int
    down_since_us: int | None = None  # since when it fails; None while it runs
    error: str = ""  # why it failed last, in one sentence


@dataclass(frozen=True)
class DriftProgress(ProgressReport):
    """What a model is served beside what its champion was trained on: of how many rows of the window, the greatest
    multiple of any column (above 1 is drift; None where nothing can be judged), multiples and statistics of columns,
    what drifted with the heaviest first; what became of records, and how many are left in the log. Where labels come,
    the share of outcomes that are wrong lately, and how often that was suspected and confirmed to be more.
    """

    kind = "drift"
    subject_fields = ("compared",)

    compared: str
    at_us: int
    version: str | None
    window_us: int
    rows: int
    multiple: float | None
    columns: dict[str, float]
    statistics: dict[str, dict[str, float]]
    ranked: list[dict[str, Any]]
    fates: dict[str, int]
    lag: int
    error_share: float | None = None
    error_changes: dict[str, int] = field(default_factory=dict)
    down_since_us: int | None = None  # since when it fails; None while it runs
    error: str = ""  # why it failed last, in one sentence


@dataclass(frozen=True)
class QualityProgress(ProgressReport):
    """How good a model is by the outcomes that are due: the share of its card's quality that it has lost beyond doubt,
    and of predictions whose label has come; None where too little is known.
    """

    kind = "quality"
    subject_fields = ("measured",)

    measured: str
    at_us: int
    lost: float | None
    coverage: float | None
