"""The label join on Spark: a call has many ids, and state is read and written by id.

bucket 7   cases: id ──▶ its case          read and written for the ids of a batch
           due:   time ──▶ ids             processed again when the clock has passed it
"""

from collections.abc import Iterable, Iterator
from typing import Any

from pyspark.sql import Row
from pyspark.sql.streaming.stateful_processor import (
    ExpiredTimerInfo,
    StatefulProcessor,
    StatefulProcessorHandle,
    TimerValues,
)

from headrace.declare.durations import UNITS_US
from headrace.declare.models.label_policy import LabelPolicy
from headrace.monitoring.outcomes.case_codec import decode_case, encode_case
from headrace.monitoring.outcomes.join_inputs import to_record
from headrace.monitoring.outcomes.outcomes import LabelEvent, OutcomeCase, OutcomeChange, PredictionEvent, advance_case
from headrace.spark.stateful.timers import KeyTimers

CLOCK_KIND = "clock"
CHANGE_COLUMNS = (
    "id string, version string, role string, segment string, minute_us bigint, score double, decision string, "
    "state_before string, label_before double, state_after string, label_after double, label_delay_us bigint, "
    "features string"
)
MAX_GRAIN_US, MIN_GRAIN_US = UNITS_US["m"], UNITS_US["s"]


def timer_grain_us(within_us: int) -> int:
    """The resolution of timers: ids that are due at nearly the same time share one."""
    return min(MAX_GRAIN_US, max(MIN_GRAIN_US, within_us // 30))


class LabelJoinProcessor(StatefulProcessor):
    """Keeps the cases of some ids; Spark's watermark is the clock."""

    def __init__(self, policy: LabelPolicy, grain_us: int) -> None:
        self._policy, self._grain_us = policy, grain_us

    def init(self, handle: StatefulProcessorHandle) -> None:
        self._cases = handle.getMapState("cases", "id string", "packed binary")
        self._timers = KeyTimers(handle)

    def handleInputRows(self, key: Any, rows: Iterator[Row], timerValues: TimerValues) -> Iterator[Row]:  # noqa: N802, N803, ARG002  # Spark's names
        records_by_id: dict[str, list[PredictionEvent | LabelEvent]] = {}
        for row in rows:
            if row.kind != CLOCK_KIND:
                records_by_id.setdefault(row.id, []).append(to_record(row))
        yield from self._advance_cases(records_by_id.items(), timerValues)

    def handleExpiredTimer(  # noqa: N802
        self,
        key: Any,  # noqa: ARG002
        timerValues: TimerValues,  # noqa: N803
        expiredTimerInfo: ExpiredTimerInfo,  # noqa: N803
    ) -> Iterator[Row]:
        ids = self._timers.pop_keys(expiredTimerInfo.getExpiryTimeInMs() * 1000)
        yield from self._advance_cases(((event_id, []) for event_id in ids), timerValues)

    def close(self) -> None:
        pass

    def _advance_cases(
        self, records_by_id: Iterable[tuple[str, list[PredictionEvent | LabelEvent]]], timer_values: TimerValues
    ) -> Iterator[Row]:
        clock_us = max(0, timer_values.getCurrentWatermarkInMs()) * 1000
        ids_by_timer: dict[int, list[str]] = {}
        has_state = self._cases.exists()  # saves a round trip for each id in a first batch
        for event_id, records in records_by_id:
            stored = self._cases.getValue((event_id,)) if has_state else None
            if stored is None and not records:  # removed since its timer was registered
                continue
            case = OutcomeCase() if stored is None else decode_case(stored[0])
            old_timer_us = None if stored is None else self._timer_us(case)
            new_case, changes = advance_case(case, records, clock_us, self._policy)
            yield from (_change_row(event_id, change) for change in changes)
            self._store_case(event_id, new_case, stored is not None)
            if new_case is not None and (self._timer_us(new_case) != old_timer_us or not records):
                ids_by_timer.setdefault(self._timer_us(new_case), []).append(event_id)
        for timer_us, ids in ids_by_timer.items():
            self._timers.register(timer_us, ids)

    def _store_case(self, event_id: str, case: OutcomeCase | None, was_stored: bool) -> None:
        if case is not None:
            self._cases.updateValue((event_id,), (encode_case(case),))
        elif was_stored:
            self._cases.removeKey((event_id,))

    def _timer_us(self, case: OutcomeCase) -> int:
        """The timer of a case: the end of the grain in which it is due."""
        return (case.next_timer_us(self._policy) // self._grain_us + 1) * self._grain_us


def _change_row(event_id: str, change: OutcomeChange) -> Row:
    return Row(id=event_id, **change._asdict())
