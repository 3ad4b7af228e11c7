"""When windows emit, and which rows: one scenario per test."""

from typing import Any

import pytest

import headrace as hr
from headrace.testing import Script

UPDATE = hr.Late("2m", then="update", until="30m")


def script(over: Any, late: hr.Late | None = None, **settings: Any) -> Script:
    clicks = hr.Stream(
        "clicks", schema="id string, user string, at timestamp", id="id", key="user", time="at", late=hr.Late("1h")
    )
    made = hr.windowed("visits", clicks, by="user", over=over, late=late or hr.Late("2m"), **settings, n=hr.count())
    return hr.testing.script(made)


def clicked(story: Script, *times: str) -> Script:
    for time in times:
        story.at(time).send(user="u")
    return story


def told(story: Script, *columns: str) -> list[tuple[Any, ...]]:
    return [tuple(row[column] for column in columns) for row in story.rows()]


def minutes(story: Script) -> list[tuple[str, ...]]:
    """The start and end of each emitted window."""
    return [
        (f"{start:%H:%M}", f"{end:%H:%M}", kind)
        for start, end, kind in told(story, "window_start", "window_end", "kind")
    ]


def test_what_happens_just_at_the_end_of_a_session_belongs_to_it() -> None:
    story = clicked(script(hr.Session("10m")), "12:00", "12:10", "12:20:00.000001").watermark("13:00")
    story.expect(
        out=[{"window_start": "12:00", "window_end": "12:20", "n": 2}, {"window_start": "12:20:00.000001", "n": 1}]
    )


def test_the_end_of_a_tumbling_window_is_the_next_ones() -> None:
    story = clicked(script(hr.Tumbling("10m")), "12:00", "12:09:59.999999", "12:10").watermark("13:00")
    story.expect(out=[{"window_start": "12:00", "n": 2}, {"window_start": "12:10", "n": 1}])


def test_an_event_that_comes_between_two_sessions_makes_them_one() -> None:
    story = clicked(script(hr.Session("10m"), UPDATE), "12:00", "12:15").watermark("12:30")
    story.at("12:08").late(by="25m").send(user="u").watermark("13:30")
    assert minutes(story) == [
        ("12:00", "12:10", "result"),
        ("12:15", "12:25", "result"),
        ("12:00", "12:10", "retraction"),
        ("12:15", "12:25", "retraction"),
        ("12:00", "12:25", "correction"),
    ]
    assert told(story, "n", "revision")[-1] == (3, 1)


def test_a_session_that_goes_on_is_taken_back_at_once_and_told_when_it_closes() -> None:
    story = clicked(script(hr.Session("10m"), UPDATE), "12:00").watermark("12:13")
    story.at("12:09").late(by="5m").send(user="u").watermark("12:20").expect(
        out=[{"kind": "result", "window_end": "12:10"}, {"kind": "retraction", "known_at": "12:14"}]
    )
    story.watermark("12:22").expect(out=[{"kind": "result"}, {"kind": "retraction"}, {"window_end": "12:19", "n": 2}])


def test_a_long_session_is_told_in_pieces_before_it_ends() -> None:
    story = clicked(script(hr.Session("10m", longest="30m")), *(f"12:{minute:02}" for minute in range(10, 60, 5)))
    story.watermark("12:42").expect(out=[])  # it began at 12:10: only after 12:40 it is known to be long
    story.watermark("12:42:01").expect(out=[{"window_start": "12:10", "window_end": "12:30", "n": 4}])
    story.watermark("13:30").expect(out=[{"n": 4}, {"window_start": "12:30", "window_end": "13:00", "n": 6}])


def test_a_session_that_is_not_long_is_not_cut() -> None:
    story = clicked(script(hr.Session("10m", longest="30m")), "12:25", "12:35").watermark("13:00")
    story.expect(out=[{"window_start": "12:25", "window_end": "12:45", "n": 2}])


def test_a_session_that_becomes_long_is_told_in_pieces_of_which_those_stand_that_were_told_already() -> None:
    story = clicked(script(hr.Session("10m", longest="30m"), UPDATE), "12:10", "12:20", "12:40").watermark("12:53")
    story.at("12:31").late(by="25m").send(user="u").at("12:30").late(by="27m").send(user="u").watermark("14:00")
    assert minutes(story)[0] == ("12:10", "12:30", "result")
    assert minutes(story)[-2:] == [("12:31", "12:50", "retraction"), ("12:30", "12:50", "correction")]
    assert told(story, "n", "revision")[-2:] == [(2, 1), (3, 2)]


def test_on_every_event_there_is_a_row_and_at_the_close_a_final_one() -> None:
    story = clicked(script(hr.Tumbling("10m"), UPDATE, emit="update"), "12:00", "12:05").watermark("12:13")
    story.at("12:01").late(by="15m").send(user="u").watermark("14:00")
    assert told(story, "n", "revision", "kind", "is_final") == [
        (1, 0, "result", False),
        (2, 1, "result", False),
        (2, 2, "result", True),
        (2, 2, "retraction", True),
        (3, 3, "correction", True),
    ]


def test_every_so_often_there_is_at_most_a_row_if_anything_changed() -> None:
    story = script(hr.Tumbling("10m"), every="1m")
    story = clicked(story, "12:00:10", "12:00:20", "12:00:59", "12:03:30", "12:04:00").watermark("13:00")
    assert [f"{row['known_at']:%H:%M:%S}" for row in story.rows()] == ["12:01:00", "12:04:00", "12:05:00", "12:12:00"]
    assert told(story, "n", "is_final") == [(3, False), (4, False), (5, False), (5, True)]


@pytest.mark.parametrize(("tells", "numbers"), [({"emit": "update"}, [1, 2, 3]), ({"every": "1h"}, [2, 3])])
def test_the_window_that_has_no_end_is_kept_for_ever(tells: dict[str, str], numbers: list[int]) -> None:
    story = clicked(script(hr.Global(), **tells), "12:00", "12:30").watermark("2027-01-01T00:00:00Z")
    story = clicked(story, "2027-06-01T12:00:00Z").watermark("2028-01-01T00:00:00Z")
    assert [row["n"] for row in story.rows()] == numbers
    story.expect(closed=[])
    assert {(row["window_start"], row["window_end"], row["is_final"]) for row in story.rows()} == {(None, None, False)}


def test_a_late_row_is_counted_once_with_the_window_it_misses_or_alone() -> None:
    story = clicked(script(hr.Sliding("10m", every="2m"), hr.Late("1m", then="drop")), "12:00", "12:03")
    story.at("12:01").late(by="2m").send(user="u").watermark("12:05")
    story.at("12:02").late(by="20m").send(user="u").watermark("13:00")
    late = [(row["window_start"], row["events"], row["late_rows"]) for row in story.rows("closed") if row["late_rows"]]
    assert [(f"{start:%H:%M}", *rest) for start, *rest in late] == [("12:00", 2, 1), ("12:02", 0, 1)]
    story.expect(late=[])


def test_what_every_key_has_is_its_own() -> None:
    story = script(hr.Session("10m")).at("12:00").send(user="a").send(user="b").at("12:05").send(user="a")
    story.watermark("13:00").expect(out=[{"user": "a", "n": 2}, {"user": "b", "n": 1}])
    assert len({row["id"] for row in story.rows()}) == 2
