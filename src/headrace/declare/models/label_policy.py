"""Which label counts for which event, by their times alone: one rule for numbers and for Spark columns.

    event ●──────────── labels count ─────────────┤ within     late ┤ closed
    label     ● counts                               ● too late       ● meets nothing: the event has left the state

A label **meets** an event that arrived no later than `retention_us` after the label, and that was not closed when the
label arrived; it **counts** for an event it meets if its own time is no later than the event's plus `within`.
"""

from dataclasses import dataclass
from typing import Any

from headrace.declare.models.labels import KeepPolicy, Labels

TimeUs = Any  # microseconds: an int, or a column of them
BoolOrColumn = Any  # a bool, or a column of them


@dataclass(frozen=True)
class LabelPolicy:
    """How labels are joined with events."""

    within_us: int
    late_us: int
    keep: KeepPolicy = "last"
    default: float | None = None

    @property
    def retention_us(self) -> int:
        """How long after its arrival a label stays in the state, in case its event arrives later."""
        return self.within_us + self.late_us

    def is_joinable(self, label_arrival_us: TimeUs, time_us: TimeUs, arrival_us: TimeUs) -> BoolOrColumn:
        """Whether a label and an event are in the state at the same time, by their records alone."""
        is_open = (label_arrival_us <= time_us + self.retention_us) | (label_arrival_us <= arrival_us)
        return (arrival_us <= label_arrival_us + self.retention_us) & is_open

    def is_in_time(self, label_time_us: TimeUs, time_us: TimeUs) -> BoolOrColumn:
        """Whether a label that meets an event counts for it."""
        return label_time_us <= time_us + self.within_us

    def is_closed(self, time_us: TimeUs, arrival_us: TimeUs, clock_us: TimeUs) -> BoolOrColumn:
        """Whether every label that may count has arrived, once everything that arrived before the clock is known."""
        return (clock_us > time_us + self.retention_us) & (clock_us > arrival_us)


def label_policy_of(labels: Labels) -> LabelPolicy:
    """The label policy that a model's labels declare."""
    default = None if labels.default is None else float(labels.default)
    return LabelPolicy(labels.within_us, labels.stream.late.until_us, labels.keep, default)
