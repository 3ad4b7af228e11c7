"""The report of the alert part."""

from dataclasses import dataclass, field

from headrace.kafka.status.reports.progress_report import ProgressReport


@dataclass(frozen=True)
class AlertingProgress(ProgressReport):
    """The firing alerts, and the results of notifications by target and of pushes by signal."""

    kind = "alerting"
    subject_fields = ("watched",)
    key_prefix = "watch"

    watched: str
    at_us: int
    firing: int
    notifications: dict[str, dict[str, int]]
    pushes: dict[str, dict[str, int]] = field(default_factory=dict)
