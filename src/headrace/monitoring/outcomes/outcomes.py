"""Outcomes of predictions: the case of one event id, and how records and the clock change it.

    prediction ●──────────── labels count ─────────────┤ within     late ┤ closed
    label          ● matched           ● corrected        ● too late       ● orphan: the prediction is not in state
    no label   pending ────────────────────────────────────────────────────┤ defaulted, or expired without a default

Which label counts for which prediction depends on their records alone, so that order, batches and replays do not
matter.

The clock is an arrival time up to which every record has been read. Removed state can match no later record. A change
is linear: the previous state is subtracted, the current one is added.
"""

import math
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from headrace.declare.durations import UNITS_US
from headrace.declare.models.label_policy import LabelPolicy
from headrace.declare.models.labels import KeepPolicy

PENDING, MATCHED, DEFAULTED, EXPIRED, ORPHAN = "pending", "matched", "defaulted", "expired", "orphan"
TOO_LATE = "too_late"  # of a label that matched predictions and counts for none
STATES = (PENDING, MATCHED, DEFAULTED, EXPIRED, ORPHAN)
MINUTE_US = UNITS_US["m"]
MAX_LABELS = 16  # in state for one id, in addition to those that count


class PredictionEvent(NamedTuple):
    """A prediction: its version and role, score and segment, its event's time and arrival, and its offset.

    `features` is the vector, as JSON, of one with online learning.
    """

    version: str
    role: str
    score: float
    decision: str | None
    segment: str
    time_us: int
    arrival_us: int
    partition: int
    offset: int
    features: str | None = None

    def closes_us(self, policy: LabelPolicy) -> int:
        """The last arrival of a label that may count, and of a record that may repeat it."""
        return max(self.time_us + policy.retention_us, self.arrival_us)


class LabelEvent(NamedTuple):
    """A label: its own time and arrival, its offset in the raw log, and its value."""

    time_us: int
    arrival_us: int
    partition: int
    offset: int
    value: float


@dataclass
class OutcomeCase:
    """The state of one event id, and the clock when it was last processed."""

    clock_us: int = 0
    predictions: dict[tuple[str, ...], PredictionEvent] = field(default_factory=dict)
    labels: dict[tuple[int, int], LabelEvent] = field(default_factory=dict)

    def add_prediction(self, prediction: PredictionEvent) -> None:
        """Add a prediction; among several of one version and role the first in the log stays."""
        version_and_role = prediction.version, prediction.role
        first_prediction = self.predictions.get(version_and_role)
        if first_prediction is None or (prediction.partition, prediction.offset) < (
            first_prediction.partition,
            first_prediction.offset,
        ):
            self.predictions[version_and_role] = prediction

    def add_label(self, label: LabelEvent) -> None:
        """Add a label; a repeated one changes nothing."""
        if math.isfinite(label.value):
            self.labels[label.partition, label.offset] = label

    def forget_after_us(self, policy: LabelPolicy) -> int:
        """The clock after which nothing can match the case."""
        closings_us = (prediction.closes_us(policy) for prediction in self.predictions.values())
        label_expiries_us = (label.arrival_us + policy.retention_us for label in self.labels.values())
        return max((*closings_us, *label_expiries_us), default=0)

    def next_timer_us(self, policy: LabelPolicy) -> int:
        """The clock at which time alone changes something: a prediction closes, or the case is removed."""
        closings_us = (prediction.closes_us(policy) for prediction in self.predictions.values())
        open_closings_us = [closes_us for closes_us in closings_us if closes_us >= self.clock_us]
        return min(open_closings_us, default=self.forget_after_us(policy))


class OutcomeStatus(NamedTuple):
    """The status of a prediction, or of a label that counts for none: the values to fold."""

    version: str
    role: str
    segment: str
    minute_us: int
    score: float
    decision: str | None
    state: str
    label: float | None
    label_delay_us: int | None
    features: str | None = None


class OutcomeChange(NamedTuple):
    """The change of one case: from one status to the next, None where there was or is none.

    It has `features` where it is an online update: a label, or its default, counts for the first time.
    """

    version: str
    role: str
    segment: str
    minute_us: int
    score: float
    decision: str | None
    state_before: str | None
    label_before: float | None
    state_after: str | None
    label_after: float | None
    label_delay_us: int | None
    features: str | None = None


OutcomeKey = tuple[
    str, str, int, int
]  # version, role and offset of a prediction; the offset of a label, which has no version


def outcome_statuses(case: OutcomeCase, policy: LabelPolicy, clock_us: int) -> dict[OutcomeKey, OutcomeStatus]:
    """The status of every prediction of an id, and of every label that counts for none."""
    statuses = {
        (prediction.version, prediction.role, prediction.partition, prediction.offset): _prediction_status(
            case, prediction, policy, clock_us
        )
        for prediction in case.predictions.values()
    }
    for label in case.labels.values():
        label_state = _unmatched_label_state(case, label, policy)
        if label_state is not None:
            minute_us = _minute_start_us(label.time_us)
            statuses["", "", label.partition, label.offset] = OutcomeStatus(
                "", "", "{}", minute_us, math.nan, None, label_state, label.value, None
            )
    return statuses


def is_label_joinable(label: LabelEvent, prediction: PredictionEvent, policy: LabelPolicy) -> bool:
    """Whether label and prediction are in state at the same time, by their records alone."""
    return bool(policy.is_joinable(label.arrival_us, prediction.time_us, prediction.arrival_us))


def is_label_counted(label: LabelEvent, prediction: PredictionEvent, policy: LabelPolicy) -> bool:
    """Whether a label counts for a prediction."""
    return bool(policy.is_in_time(label.time_us, prediction.time_us)) and is_label_joinable(label, prediction, policy)


def _prediction_status(
    case: OutcomeCase, prediction: PredictionEvent, policy: LabelPolicy, clock_us: int
) -> OutcomeStatus:
    label = _counted_label(case, prediction, policy)
    is_closed = policy.is_closed(prediction.time_us, prediction.arrival_us, clock_us)
    state, value, delay_us = _closed_state(policy) if is_closed else (PENDING, None, None)
    if label is not None:
        state, value, delay_us = MATCHED, label.value, label.arrival_us - prediction.time_us
    return OutcomeStatus(
        prediction.version,
        prediction.role,
        prediction.segment,
        _minute_start_us(prediction.time_us),
        prediction.score,
        prediction.decision,
        state,
        value,
        delay_us,
        prediction.features,
    )


def _counted_label(case: OutcomeCase, prediction: PredictionEvent, policy: LabelPolicy) -> LabelEvent | None:
    return choose_label(
        (label for label in case.labels.values() if is_label_counted(label, prediction, policy)), policy.keep
    )


def _closed_state(policy: LabelPolicy) -> tuple[str, float | None, None]:
    return (EXPIRED, None, None) if policy.default is None else (DEFAULTED, policy.default, None)


def _unmatched_label_state(case: OutcomeCase, label: LabelEvent, policy: LabelPolicy) -> str | None:
    """The state of a label that counts for no prediction; None for one that counts."""
    joinable = [prediction for prediction in case.predictions.values() if is_label_joinable(label, prediction, policy)]
    if any(is_label_counted(label, scored, policy) for scored in joinable):
        return None
    return TOO_LATE if joinable else ORPHAN


def choose_label(labels: Iterable[LabelEvent], keep: KeepPolicy) -> LabelEvent | None:
    """The label that a policy chooses among several."""
    match keep:
        case "last":
            return max(labels, default=None)
        case "first":
            return min(labels, default=None)
    return max(labels, key=_value_order, default=None)


def _value_order(label: LabelEvent) -> tuple[float, LabelEvent]:
    return label.value, label


def _minute_start_us(time_us: int) -> int:
    return time_us - time_us % MINUTE_US


def advance_case(
    case: OutcomeCase, records: Iterable[PredictionEvent | LabelEvent], clock_us: int, policy: LabelPolicy
) -> tuple[OutcomeCase | None, list[OutcomeChange]]:
    """The case after some records and the clock, None where nothing is left; and its changes."""
    before = outcome_statuses(case, policy, case.clock_us)
    for record in records:
        if isinstance(record, PredictionEvent):
            case.add_prediction(record)
        else:
            case.add_label(record)
    case.clock_us = max(case.clock_us, clock_us)
    changes = list(diff_statuses(before, outcome_statuses(case, policy, case.clock_us)))
    if case.clock_us > case.forget_after_us(policy):
        return None, changes
    _limit_labels(case, policy)
    return case, changes


def diff_statuses(
    before: Mapping[OutcomeKey, OutcomeStatus], after: Mapping[OutcomeKey, OutcomeStatus]
) -> Iterator[OutcomeChange]:
    """The changes from one set of statuses to another."""
    for key, status in {**before, **after}.items():
        old_state, new_state = _state_and_label(before.get(key)), _state_and_label(after.get(key))
        if old_state != new_state:
            features = (
                status.features if old_state[0] in {None, PENDING} and new_state[0] in {MATCHED, DEFAULTED} else None
            )
            yield OutcomeChange(*status[:6], *old_state, *new_state, status.label_delay_us, features)


def _state_and_label(status: OutcomeStatus | None) -> tuple[str | None, float | None]:
    return (None, None) if status is None else (status.state, status.label)


def _limit_labels(case: OutcomeCase, policy: LabelPolicy) -> None:
    """Limit the labels of one id: those that count, and those its policy prefers."""
    if len(case.labels) <= MAX_LABELS:
        return
    counted_labels = {_counted_label(case, prediction, policy) for prediction in case.predictions.values()} - {None}
    preferred_labels = sorted(
        case.labels.values(), key=_value_order if policy.keep == "any" else None, reverse=policy.keep != "first"
    )
    other_labels = [label for label in preferred_labels if label not in counted_labels][:MAX_LABELS]
    case.labels = {
        (kept_label.partition, kept_label.offset): kept_label
        for kept_label in (*counted_labels, *other_labels)
        if kept_label is not None
    }
