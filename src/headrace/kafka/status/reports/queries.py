"""The reports of queries."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Self

from headrace.kafka.status.reports.progress_report import ProgressReport


@dataclass(frozen=True)
class QueryProgress(ProgressReport):
    """The latest report of one query; the figures of its state are from its last checkpoint."""

    kind = "query"
    subject_fields = ("query",)

    query: str
    stream: str
    views: tuple[str, ...]
    lane: str
    running: bool
    at_us: int
    watermark_us: int | None = None
    state_rows: int = 0
    state_bytes: int = 0
    dropped_by_watermark: int = 0
    checkpoint_ms: int | None = None
    reached: dict[str, int] = field(default_factory=dict)  # the next offset of each partition, at the last checkpoint
    derives: tuple[str, ...] = ()
    restarts: int = 0  # since its driver started
    down_since_us: int | None = None  # None while it runs
    error: str = ""  # why it failed last, in one sentence; stays until it has run steadily again

    @property
    def key(self) -> str:
        return self.query

    @property
    def is_gate(self) -> bool:
        return not self.views and not self.derives

    @classmethod
    def from_json(cls, message: Mapping[str, Any]) -> Self:
        tuples = {name: tuple(message[name]) for name in ("views", "derives") if name in message}
        return super().from_json({**message, **tuples})
