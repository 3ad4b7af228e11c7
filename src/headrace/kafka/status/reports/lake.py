"""The reports of the lake's tables, and of the consistency check of served values."""

from dataclasses import dataclass, field

from headrace.kafka.status.reports.progress_report import ProgressReport


@dataclass(frozen=True)
class IngestionProgress(ProgressReport):
    """The last ingestion step of a lake table: its records, the remaining records, and its duration."""

    kind = "ingestion"
    subject_fields = ("landed",)
    key_prefix = "lake"

    landed: str
    at_us: int
    taken: int
    left: int
    seconds: float
    topic: str = ""
    reached: dict[str, int] = field(default_factory=dict)  # the next offset of each of its partitions
    down_since_us: int | None = None  # since when no step has succeeded; None once one has
    error: str = ""  # why the last step failed, in one sentence


@dataclass(frozen=True)
class MaintenanceProgress(ProgressReport):
    """The last maintenance of a table of the lake: compaction, retention and the removal of files."""

    kind = "maintenance"
    subject_fields = ("maintained",)

    maintained: str
    at_us: int
    down_since_us: int | None = None  # since when it fails; None once it has succeeded
    error: str = ""  # why it failed last, in one sentence


@dataclass(frozen=True)
class ConsistencyCheckProgress(ProgressReport):
    """The number of served responses of a view compared with its events, and the values by result."""

    kind = "consistency_check"
    subject_fields = ("checked",)
    key_prefix = "check"

    checked: str
    at_us: int
    answers: int
    outcomes: dict[str, int]
