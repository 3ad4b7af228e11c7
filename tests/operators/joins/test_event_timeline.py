"""Rows ordered by time: range lookups, and removal of one row without moving all others."""

import time

from hypothesis import given
from hypothesis import strategies as st

from headrace.operators.joins.event_timeline import EventTimeline, JoinRow, decode_row, encode_row


def rows_at(times: list[int]) -> list[JoinRow]:
    return [JoinRow(time_us, 0, number, []) for number, time_us in enumerate(times)]


@given(st.lists(st.integers(0, 9)), st.lists(st.integers(-1, 10), max_size=4), st.integers(-1, 10), st.integers(-1, 10))
def test_a_timeline_is_a_sorted_list_of_what_was_not_forgotten(
    times: list[int], forgets: list[int], from_us: int, to_us: int
) -> None:
    timeline: EventTimeline[JoinRow] = EventTimeline()
    for row in rows_at(times):
        timeline.insert(row)
    for forget_us in forgets:
        timeline.forget_oldest(timeline.first_index_from(forget_us))
    left = sorted(time_us for time_us in times if time_us >= max(forgets, default=-1))
    assert [row.time_us for row in timeline] == left
    assert len(timeline) == len(left)
    assert [timeline[number].time_us for number in range(len(timeline))] == left
    assert [row.time_us for row in timeline.rows_between(from_us, to_us)] == [
        at for at in left if from_us <= at <= to_us
    ]
    assert all(timeline.find_row(row.position) is row for row in timeline)


def test_to_forget_a_row_is_not_to_move_all_others() -> None:
    timeline = EventTimeline(rows_at(list(range(300_000))))
    began = time.process_time()
    for _ in range(300_000):
        timeline.forget_oldest(1)
    assert len(timeline) == 0
    assert time.process_time() - began < 10


def test_what_json_has_no_word_for_is_read_as_it_was() -> None:
    row = JoinRow(1, 2, "id", [float("nan"), float("-inf"), None, "NaN", 1, True, 0.5])
    assert repr(JoinRow(*decode_row(encode_row(row)))) == repr(row)
