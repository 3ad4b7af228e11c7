"""What sinks, outboxes, bridges and captures report."""

from dataclasses import dataclass

from headrace.kafka.status.reports.progress_report import ProgressReport


@dataclass(frozen=True)
class SinkProgress(ProgressReport):
    """What one copy of a sink has done since it began: how many rows of each fate, how many it parked for which
    reason, how often it had to try again, and what keeps it from going on now.
    """

    kind = "sink"
    subject_fields = ("sunk", "copy")

    sunk: str
    copy: str
    at_us: int
    rows: dict[str, int]
    parked: dict[str, int]
    retries: int
    trouble: str


@dataclass(frozen=True)
class OutboxProgress(ProgressReport):
    """What one relay of an outbox has done since it began: how many rows of each fate, how many it parked for which
    reason, how often it had to try again, how old the oldest row was that it last read, and what keeps it from going
    on now.
    """

    kind = "outbox"
    subject_fields = ("relayed", "copy")

    relayed: str
    copy: str
    at_us: int
    rows: dict[str, int]
    parked: dict[str, int]
    retries: int
    waited_seconds: float
    trouble: str


@dataclass(frozen=True)
class SourceProgress(ProgressReport):
    """What a bridge has copied of a stream since it began, what was left in the other log when it last looked, and what
    keeps it from going on now.
    """

    kind = "source"
    subject_fields = ("bridged",)
    key_prefix = "bridge"

    bridged: str
    at_us: int
    copied: int
    left: int
    trouble: str


@dataclass(frozen=True)
class CaptureProgress(ProgressReport):
    """How the capture of a table fares: how much of its database's log is kept for it, and what keeps it from going on
    now.
    """

    kind = "capture"
    subject_fields = ("captured",)

    captured: str
    at_us: int
    kept_bytes: int
    trouble: str
