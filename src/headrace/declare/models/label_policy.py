"""Which label counts for which event, by their times alone: one rule for numbers, and for Spark's columns of them.

    event ●──────────── labels count ─────────────┤ within     late ┤ closed
    label     ● counts                               ● too late       ● meets nothing: nobody remembers the event

A label **meets** an event that arrived no later than `kept_us` after the label, and that was not closed when the label
arrived; it **counts** for one it meets if its own time is no later than the event's and `within`.
"""

from dataclasses import dataclass
from typing import Any

from headrace.declare.models.labels import KeepPolicy, Labels

TimeUs = Any  # microseconds: an int, or a column of them
BoolOrColumn = Any  # a bool, or a column of them


@dataclass(frozen=True)
class LabelPolicy:
    """What labels are joined by."""

    within_us: int
    late_us: int
    keep: KeepPolicy = "last"
    default: float | None = None

    @property
    def retention_us(self) -> int:
        """How long after its arrival a label is remembered, in case its event comes later."""
        return self.within_us + self.late_us

    def is_joinable(self, label_arrival_us: TimeUs, time_us: TimeUs, arrival_us: TimeUs) -> BoolOrColumn:
        """Whether a label and an event are remembered at the same time, by their records alone."""
        is_open = (label_arrival_us <= time_us + self.retention_us) | (label_arrival_us <= arrival_us)
        return (arrival_us <= label_arrival_us + self.retention_us) & is_open

    def is_in_time(self, label_time_us: TimeUs, time_us: TimeUs) -> BoolOrColumn:
        """Whether a label that meets an event says what came of it."""
        return label_time_us <= time_us + self.within_us

    def is_closed(self, time_us: TimeUs, arrival_us: TimeUs, clock_us: TimeUs) -> BoolOrColumn:
        """Whether all that may count has arrived, once all is known that arrived before the clock."""
        return (clock_us > time_us + self.retention_us) & (clock_us > arrival_us)


def label_policy_of(labels: Labels) -> LabelPolicy:
    """The terms that a model declares."""
    default = None if labels.default is None else float(labels.default)
    return LabelPolicy(labels.within_us, labels.stream.late.until_us, labels.keep, default)
