"""The reports of sinks, outboxes, bridges and captured tables."""

from dataclasses import dataclass

from headrace.kafka.status.reports.progress_report import ProgressReport


@dataclass(frozen=True)
class SinkProgress(ProgressReport):
    """The counts of one copy of a sink since its start, and its current error."""

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
    """The counts of one relay of an outbox since its start, and its current error."""

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
    """The messages that a bridge has copied since its start, those that remain, and its current error."""

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
    """The capture of a table: the bytes of WAL that its slot retains, and its current error."""

    kind = "capture"
    subject_fields = ("captured",)

    captured: str
    at_us: int
    kept_bytes: int
    trouble: str
