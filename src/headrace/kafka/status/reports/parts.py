"""The supervisor's reports of the parts of an app."""

from dataclasses import dataclass

from headrace.kafka.status.reports.progress_report import ProgressReport


@dataclass(frozen=True)
class PartProgress(ProgressReport):
    """The state of one part (process) of a running app."""

    kind = "part"
    subject_fields = ("app", "part")

    part: str
    at_us: int
    state: str  # "starting", "running", "restarting" or "stopped"
    restarts: int = 0
    down_since_us: int | None = None  # None while it runs
    error: str = ""  # why it ended last, in one sentence
    affects: str = ""  # the impact while it is down, in one sentence
    app: str = ""  # several apps may run on one broker
