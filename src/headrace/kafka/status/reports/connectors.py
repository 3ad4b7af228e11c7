"""What sinks, outboxes, bridges and captures report."""

from dataclasses import dataclass

from headrace.kafka.status.reports.progress_report import ProgressReport


@dataclass(frozen=True)
class SinkProgress(ProgressReport):
    """What one copy of a sink has done since it started, and what stops it."""

    kind = "sink"
    subject_fields = ("sunk", "copy")

    sunk: str
    copy: str
    at_us: int
    rows: dict[str, int]  # by what became of them
    parked: dict[str, int]  # by reason
    retries: int
    trouble: str


@dataclass(frozen=True)
class OutboxProgress(ProgressReport):
    """What one relay of an outbox has done since it started, and what stops it."""

    kind = "outbox"
    subject_fields = ("relayed", "copy")

    relayed: str
    copy: str
    at_us: int
    rows: dict[str, int]  # by what became of them
    parked: dict[str, int]  # by reason
    retries: int
    waited_seconds: float  # the age of the oldest row that it last read
    trouble: str


@dataclass(frozen=True)
class SourceProgress(ProgressReport):
    """What a bridge has copied of a stream since it started, what was left when it last looked, and what stops it."""

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
    """How the capture of a table fares: the bytes of the database's log that are kept for it, and what stops it."""

    kind = "capture"
    subject_fields = ("captured",)

    captured: str
    at_us: int
    kept_bytes: int
    trouble: str
