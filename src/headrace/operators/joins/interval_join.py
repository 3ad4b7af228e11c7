"""The interval join of two streams by key and time: emits pairs at once, unmatched rows once no partner can arrive.

within=("5m", "1h"), payments up to 2m late

                 −5m   order   +1h  +2m
    ─────────────├──────●───────┤────┼──────▶ clock
    payments         ●      ●        │ no on-time partner can arrive any more: a left join emits it
                     └ pair └ pair   └ and the order is removed (with then="update": once no late one can)

A pair is emitted when the second of the two is processed, whichever that is. Whether a row is unmatched depends on
arrival times alone: partners that arrived before it was due count, however late they are read.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field
from heapq import heappop, heappush
from typing import NamedTuple

import orjson

from headrace.declare.operations.join import Join
from headrace.declare.operations.join_inputs import Side
from headrace.operators.joins.event_timeline import EventTimeline, JoinRow, decode_row, encode_row
from headrace.operators.joins.join_rows import LEFT, JoinRowBuilder, JoinTimer, decode_timer
from headrace.operators.operator import InputEvent, Key, Operator, OutputEvent


@dataclass(slots=True)
class IntervalJoinRow(JoinRow):
    """A row, the arrival of its first partner, and whether it was emitted as unmatched, and retracted."""

    first_partner_us: int | None = None
    is_emitted_unmatched: bool = False
    is_retracted: bool = False


@dataclass
class IntervalJoinState:
    """The state of a key: the rows of both sides by time, and the timers of those that may stay unmatched."""

    rows: tuple[EventTimeline[IntervalJoinRow], EventTimeline[IntervalJoinRow]] = field(
        default_factory=lambda: (EventTimeline(), EventTimeline())
    )
    timers: list[JoinTimer] = field(default_factory=list)


class PartnerWindow(NamedTuple):
    """How far in time a row's partners may be, and when none can arrive any more: on time, and at all."""

    before_us: int
    after_us: int
    unmatched_after_us: int
    expires_after_us: int


def _partner_window(before_us: int, after_us: int, other_side: Side) -> PartnerWindow:
    return PartnerWindow(before_us, after_us, after_us + other_side.after_us + 1, after_us + other_side.until_us + 1)


class IntervalJoinOperator(Operator[IntervalJoinState]):
    """The operator of a `Join`."""

    def __init__(self, spec: Join) -> None:
        self._sides = spec.left, spec.right
        self._outputs = JoinRowBuilder(spec)
        left_window = _partner_window(spec.before_us, spec.after_us, spec.right)
        self._partner_windows = left_window, _partner_window(spec.after_us, spec.before_us, spec.left)

    def create_state(self) -> IntervalJoinState:
        return IntervalJoinState()

    def process_event(self, key: Key, state: IntervalJoinState, event: InputEvent) -> Iterator[OutputEvent]:
        side = self._sides[event.input_index]
        if event.lateness_us > side.until_us:
            yield from self._outputs.late_event_rows(key, event)
            return
        row = IntervalJoinRow(event.time_us, event.arrival_us, event.id, self._outputs.select_values(event))
        if None not in key:
            yield from self._pair_row(key, state, event.input_index, row)
        elif side.outer:
            yield self._unmatched_row(key, event.input_index, row, row.arrival_us)

    def next_timer_us(self, state: IntervalJoinState) -> int | None:
        timers_us = [
            rows[0].time_us + self._partner_windows[input_index].expires_after_us
            for input_index, rows in enumerate(state.rows)
            if rows
        ]
        return min([*timers_us, *(timer.at_us for timer in state.timers[:1])], default=None)

    def on_timer(self, key: Key, state: IntervalJoinState, timer_us: int) -> Iterator[OutputEvent]:
        while state.timers and state.timers[0].at_us <= timer_us:
            yield from self._fire_timer(key, state, heappop(state.timers))
        for rows, window in zip(state.rows, self._partner_windows, strict=True):
            rows.forget_oldest(rows.first_index_from(timer_us - window.expires_after_us + 1))

    def encode_state(self, state: IntervalJoinState) -> bytes:
        rows = [
            [[*encode_row(row), row.first_partner_us, row.is_emitted_unmatched, row.is_retracted] for row in rows]
            for rows in state.rows
        ]
        return orjson.dumps({"rows": rows, "agenda": list(map(tuple, state.timers))})

    def decode_state(self, encoded: bytes) -> IntervalJoinState:
        decoded = orjson.loads(encoded)
        left, right = (
            EventTimeline(IntervalJoinRow(*decode_row(encoded_row[:4]), *encoded_row[4:]) for encoded_row in rows)
            for rows in decoded["rows"]
        )
        return IntervalJoinState((left, right), list(map(decode_timer, decoded["agenda"])))

    def _pair_row(
        self, key: Key, state: IntervalJoinState, input_index: int, row: IntervalJoinRow
    ) -> Iterator[OutputEvent]:
        """Store a new row, and emit its pairs with all stored partners."""
        window = self._partner_windows[input_index]
        state.rows[input_index].insert(row)
        if self._sides[input_index].outer:
            heappush(state.timers, JoinTimer(row.time_us + window.unmatched_after_us, input_index, row.position))
        for partner in state.rows[1 - input_index].rows_between(
            row.time_us - window.before_us, row.time_us + window.after_us
        ):
            self._record_partner(state, input_index, row, partner.arrival_us)
            self._record_partner(state, 1 - input_index, partner, row.arrival_us)
            left, right = (row, partner) if input_index == LEFT else (partner, row)
            yield self._outputs.joined_row(key, left, right, max(row.arrival_us, partner.arrival_us))

    def _record_partner(
        self, state: IntervalJoinState, input_index: int, row: IntervalJoinRow, arrival_us: int
    ) -> None:
        """Record a row's partner; one that arrived after the row was due as unmatched schedules a correction."""
        if row.first_partner_us is not None and row.first_partner_us <= arrival_us:
            return
        row.first_partner_us = arrival_us
        if (
            self._sides[input_index].outer
            and arrival_us >= row.time_us + self._partner_windows[input_index].unmatched_after_us
        ):
            heappush(state.timers, JoinTimer(arrival_us + 1, input_index, row.position))

    def _fire_timer(self, key: Key, state: IntervalJoinState, timer: JoinTimer) -> Iterator[OutputEvent]:
        row = state.rows[timer.input_index].find_row(timer.position)
        unmatched_us = row.time_us + self._partner_windows[timer.input_index].unmatched_after_us
        unmatched = self._unmatched_row(key, timer.input_index, row, max(unmatched_us, row.arrival_us))
        if not row.is_emitted_unmatched and (row.first_partner_us is None or row.first_partner_us >= unmatched_us):
            row.is_emitted_unmatched = True
            yield unmatched
        if (
            row.is_emitted_unmatched
            and not row.is_retracted
            and row.first_partner_us is not None
            and row.first_partner_us < timer.at_us
        ):
            row.is_retracted = True
            yield self._outputs.retraction(unmatched, max(row.first_partner_us, row.arrival_us))

    def _unmatched_row(self, key: Key, input_index: int, row: JoinRow, known_us: int) -> OutputEvent:
        left, right = (row, None) if input_index == LEFT else (None, row)
        return self._outputs.joined_row(key, left, right, known_us)
