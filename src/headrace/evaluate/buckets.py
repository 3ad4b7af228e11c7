"""The join of predictions and labels as Spark runs it: a call has many ids, state is read and written by id.

bucket 7   cases: id ──▶ its case          read and written for the ids that a batch has something of
           due:   time ──▶ ids             looked at again when the clock has passed it
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
from headrace.declare.terms import Terms
from headrace.evaluate.outcomes import Case, Change, Label, Scored, step
from headrace.evaluate.packing import packed, unpacked
from headrace.evaluate.told import record_of
from headrace.stream.due import Due

CLOCK = "clock"
CHANGES = (
    "id string, version string, role string, segment string, minute_us bigint, score double, decision string, "
    "state_before string, label_before double, state_after string, label_after double, label_delay_us bigint, "
    "features string"
)
LONGEST_GRAIN_US, SHORTEST_GRAIN_US = UNITS_US["m"], UNITS_US["s"]


def grain_us(within_us: int) -> int:
    """Ids that are due at nearly the same time are looked at together: how near, by the clock."""
    return min(LONGEST_GRAIN_US, max(SHORTEST_GRAIN_US, within_us // 30))


class Buckets(StatefulProcessor):
    """Keeps the cases of some ids; Spark's watermark is the clock."""

    def __init__(self, terms: Terms, grain_us: int) -> None:
        self._terms, self._grain_us = terms, grain_us

    def init(self, handle: StatefulProcessorHandle) -> None:
        self._cases = handle.getMapState("cases", "id string", "packed binary")
        self._due = Due(handle)

    def handleInputRows(self, key: Any, rows: Iterator[Row], timerValues: TimerValues) -> Iterator[Row]:  # noqa: N802, N803, ARG002  # Spark's names
        news: dict[str, list[Scored | Label]] = {}
        for row in rows:
            if row.kind != CLOCK:
                news.setdefault(row.id, []).append(record_of(row))
        yield from self._stepped(news.items(), timerValues)

    def handleExpiredTimer(  # noqa: N802
        self,
        key: Any,  # noqa: ARG002
        timerValues: TimerValues,  # noqa: N803
        expiredTimerInfo: ExpiredTimerInfo,  # noqa: N803
    ) -> Iterator[Row]:
        ids = self._due.taken(expiredTimerInfo.getExpiryTimeInMs() * 1000)
        yield from self._stepped(((event_id, []) for event_id in ids), timerValues)

    def close(self) -> None:
        pass

    def _stepped(self, news: Iterable[tuple[str, list[Scored | Label]]], timers: TimerValues) -> Iterator[Row]:
        clock_us = max(0, timers.getCurrentWatermarkInMs()) * 1000
        later: dict[int, list[str]] = {}
        knows_any = self._cases.exists()  # each question costs a round trip: of a first batch there is nothing to ask
        for event_id, records in news:
            known = self._cases.getValue((event_id,)) if knows_any else None
            if known is None and not records:  # forgotten since it was noted as due
                continue
            case = Case() if known is None else unpacked(known[0])
            noted_us = None if known is None else self._look_us(case)
            left, changes = step(case, records, clock_us, self._terms)
            yield from (_row(event_id, change) for change in changes)
            self._keep(event_id, left, known is not None)
            if left is not None and (self._look_us(left) != noted_us or not records):
                later.setdefault(self._look_us(left), []).append(event_id)
        for at_us, ids in later.items():
            self._due.note(at_us, ids)

    def _keep(self, event_id: str, case: Case | None, was_known: bool) -> None:
        if case is not None:
            self._cases.updateValue((event_id,), (packed(case),))
        elif was_known:
            self._cases.removeKey((event_id,))

    def _look_us(self, case: Case) -> int:
        """When to look at a case again: the first whole grain after it is due."""
        return (case.due_us(self._terms) // self._grain_us + 1) * self._grain_us


def _row(event_id: str, change: Change) -> Row:
    return Row(id=event_id, **change._asdict())
