"""The as-of join: each left event with the last right version at or before its time, within the tolerance.

tolerance="10m", quotes up to 2m late

    quotes      ●q1        ●q2                       ●q3          q2 was valid from its time until that of q3
    trades                      ●t                                at most 10m
                                ├─ 2m ─┤
                                       └ no on-time quote before t can arrive any more: t with q2
                                ├ wait ┤ may be shorter: then with what had arrived by then

Decisions depend on arrival times, not on the order of reading: the same events give the same rows. A quote that
arrives after a trade stopped waiting, and would have matched, retracts the row and emits a corrected one with
then="update"; otherwise it goes to `late`.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field
from heapq import heappop, heappush

import orjson

from headrace.declare.operations.join import AsofJoin
from headrace.operators.joins.event_timeline import EventTimeline, JoinRow, RowPosition, decode_row, encode_row
from headrace.operators.joins.join_rows import LEFT, RIGHT, JoinRowBuilder, JoinTimer, decode_timer, joined_row_id
from headrace.operators.operator import InputEvent, Key, Operator, OutputEvent


@dataclass(slots=True)
class DecidedRow(JoinRow):
    """A left row and its version, if any: in state while a better version may arrive."""

    matched_version: JoinRow | None


@dataclass
class AsofJoinState:
    """The state of a key: waiting left rows, decided ones, and the versions of the right by time."""

    waiting_rows: dict[RowPosition, JoinRow] = field(default_factory=dict)
    decided_rows: EventTimeline[DecidedRow] = field(default_factory=EventTimeline)
    versions: EventTimeline[JoinRow] = field(default_factory=EventTimeline)
    timers: list[JoinTimer] = field(default_factory=list)


class AsofJoinOperator(Operator[AsofJoinState]):
    """The operator of an `AsofJoin`."""

    def __init__(self, spec: AsofJoin) -> None:
        self._spec, self._outputs = spec, JoinRowBuilder(spec)
        self._right_columns = [column for column, _ in spec.right.columns]
        # With unlimited waiting and late events dropped, no version is too late for a row.
        self._emits_corrections = spec.then == "update" or (spec.then == "side_output" and spec.wait_us is not None)
        # Left rows in state, or still to come, are not older than this before the clock.
        self._left_horizon_us = max(spec.left.until_us, spec.right.after_us + 1)

    def create_state(self) -> AsofJoinState:
        return AsofJoinState()

    def process_event(self, key: Key, state: AsofJoinState, event: InputEvent) -> Iterator[OutputEvent]:
        side = self._spec.left if event.input_index == LEFT else self._spec.right
        row = JoinRow(event.time_us, event.arrival_us, event.id, self._outputs.select_values(event))
        if event.lateness_us > side.until_us:
            yield from self._outputs.late_event_rows(key, event)
        elif None in key:
            yield from self._output_rows(key, row, None, row.arrival_us) if event.input_index == LEFT else ()
        elif event.input_index == LEFT:
            state.waiting_rows[row.position] = row
            heappush(state.timers, JoinTimer(self._decision_us(row), LEFT, row.position))
        else:
            state.versions.insert(row)
            if self._emits_corrections:
                heappush(state.timers, JoinTimer(row.arrival_us + 1, RIGHT, row.position))

    def next_timer_us(self, state: AsofJoinState) -> int | None:
        timers_us = [timer.at_us for timer in state.timers[:1]]
        timers_us += [self._final_us(state.decided_rows[0])] if state.decided_rows else []
        timers_us += [self._version_expiry_us(state.versions, 0)] if state.versions else []
        return min(timers_us, default=None)

    def on_timer(self, key: Key, state: AsofJoinState, timer_us: int) -> Iterator[OutputEvent]:
        while state.timers and state.timers[0].at_us <= timer_us:
            timer = heappop(state.timers)
            if timer.input_index == LEFT:
                yield from self._decide_row(key, state, timer)
            else:
                yield from self._correct_rows(key, state, state.versions.find_row(timer.position))
        state.decided_rows.forget_oldest(state.decided_rows.first_index_from(timer_us - self._spec.right.until_us))
        self._forget_versions(state.versions, timer_us)

    def encode_state(self, state: AsofJoinState) -> bytes:
        plain_state = {
            "waiting": [encode_row(row) for row in state.waiting_rows.values()],
            "decided": [
                [encode_row(row), row.matched_version and encode_row(row.matched_version)] for row in state.decided_rows
            ],
            "versions": [encode_row(row) for row in state.versions],
            "agenda": list(map(tuple, state.timers)),
        }
        return orjson.dumps(plain_state)

    def decode_state(self, encoded: bytes) -> AsofJoinState:
        decoded = orjson.loads(encoded)
        return AsofJoinState(
            {row.position: row for row in (JoinRow(*decode_row(encoded_row)) for encoded_row in decoded["waiting"])},
            EventTimeline(
                DecidedRow(*decode_row(one), encoded_version and JoinRow(*decode_row(encoded_version)))
                for one, encoded_version in decoded["decided"]
            ),
            EventTimeline(JoinRow(*decode_row(one)) for one in decoded["versions"]),
            list(map(decode_timer, decoded["agenda"])),
        )

    def _decision_us(self, row: JoinRow) -> int:
        """When a left row is decided: everything on time has arrived, or its wait is over."""
        complete_us = max(row.arrival_us, row.time_us + self._spec.right.after_us + 1)
        return complete_us if self._spec.wait_us is None else min(complete_us, row.arrival_us + self._spec.wait_us)

    def _final_us(self, row: JoinRow) -> int:
        """When no version for a left row can arrive any more."""
        return row.time_us + self._spec.right.until_us + 1

    def _decide_row(self, key: Key, state: AsofJoinState, timer: JoinTimer) -> Iterator[OutputEvent]:
        row = state.waiting_rows.pop(timer.position)
        version = self._find_valid_version(state.versions, row.time_us, timer.at_us)
        if self._emits_corrections and timer.at_us < self._final_us(row):
            state.decided_rows.insert(DecidedRow(*row.position, row.values, version))
        yield from self._output_rows(key, row, version, timer.at_us)

    def _find_valid_version(self, versions: EventTimeline[JoinRow], time_us: int, known_us: int) -> JoinRow | None:
        """The last version at or before a time that had arrived before another."""
        for index in range(versions.first_index_from(time_us + 1) - 1, -1, -1):
            if versions[index].time_us < time_us - self._spec.tolerance_us:
                return None
            if versions[index].arrival_us < known_us:
                return versions[index]
        return None

    def _correct_rows(self, key: Key, state: AsofJoinState, version: JoinRow) -> Iterator[OutputEvent]:
        """Correct the decided rows that a version matches: none after a row with a later version."""
        for index in range(state.decided_rows.first_index_from(version.time_us), len(state.decided_rows)):
            row = state.decided_rows[index]
            if row.time_us > version.time_us + self._spec.tolerance_us:
                return
            if row.matched_version is not None and row.matched_version.position > version.position:
                return
            if row.matched_version is None or row.matched_version.position < version.position:
                yield from self._correct_row(key, row, version)
                row.matched_version = version

    def _correct_row(self, key: Key, row: DecidedRow, version: JoinRow) -> Iterator[OutputEvent]:
        if self._spec.then != "update":
            yield from self._outputs.late_rows(key, RIGHT, row, version)
            return
        for output in self._output_rows(key, row, row.matched_version, 0):
            yield self._outputs.retraction(output, version.arrival_us)
        yield from self._output_rows(key, row, version, version.arrival_us)

    def _output_rows(self, key: Key, row: JoinRow, version: JoinRow | None, known_us: int) -> Iterator[OutputEvent]:
        """The row of a left event with a version, or with none where that one ends the validity."""
        valid_version = None if version is None or self._is_end_marker(version) else version
        if valid_version is not None or self._spec.left.outer:
            yield self._outputs.joined_row(key, row, valid_version, known_us)._replace(id=joined_row_id(row, version))

    def _is_end_marker(self, version: JoinRow) -> bool:
        """Whether a version only ends the validity of the one before."""
        if self._spec.deleted is None:
            return False
        column, end_value = self._spec.deleted
        return version.values[self._right_columns.index(column)] is end_value

    def _forget_versions(self, versions: EventTimeline[JoinRow], clock_us: int) -> None:
        """Remove the oldest versions that no row can need; the last one of all only when it is beyond the tolerance."""
        count = 0
        while count < len(versions) and self._version_expiry_us(versions, count) <= clock_us:
            count += 1
        versions.forget_oldest(count)

    def _version_expiry_us(self, versions: EventTimeline[JoinRow], index: int) -> int:
        """When no row can need a version any more: it is too old, or a later one has replaced it."""
        version = versions[index]
        expiry_us = version.time_us + self._spec.tolerance_us + self._left_horizon_us + 1
        if index + 1 < len(versions):
            next_version = versions[index + 1]
            expiry_us = min(expiry_us, max(next_version.time_us + self._left_horizon_us, next_version.arrival_us + 1))
        return max(expiry_us, version.arrival_us + 1)
