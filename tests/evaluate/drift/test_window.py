"""A window has the rows of its minutes, however long it is; vectors are read as they were sent, the first of each."""

import numpy as np
import orjson
import pytest

from headrace.declare.drift import Drift
from headrace.evaluate.drift.fold import fold
from headrace.evaluate.drift.layout import WHOLE, Layout
from headrace.evaluate.drift.look import look_at, policy_of
from headrace.evaluate.drift.served import columns_of, read_vector
from headrace.evaluate.drift.tile import Tile
from headrace.evaluate.drift.window import HOPS, MINUTE_US, Window, hop_of
from headrace.evaluate.repeats import Repeats
from headrace.evaluate.vectors import parts_from
from headrace.score.reference import references_of
from headrace.tiles.columns import Values
from tests.evaluate.drift.test_examine import LAYOUT, counted, live
from tests.evaluate.served import drawn as served
from tests.evaluate.served import new_model, vectors

HOUR_US = 60 * MINUTE_US
SMALL = Layout(references_of({"x": np.arange(10.0)}, {}))


def tiles(minutes: list[int]) -> list:
    values = Values(np.zeros(len(minutes)), np.ones(len(minutes), np.bool_))
    return list(fold(SMALL, {"x": values}, np.array(minutes) * MINUTE_US).items())


@pytest.mark.parametrize("hours", [1, 24, 24 * 7])
def test_a_window_is_never_short_and_at_most_a_hop_too_long(hours: int) -> None:
    rng, window_us = np.random.default_rng(hours), hours * HOUR_US
    minutes = rng.integers(0, 3 * 60 * hours, 500).tolist()
    window, now_us = Window(SMALL, window_us), 2 * window_us
    for (segment, minute_us), tile in tiles(minutes):
        window.add(segment, minute_us, tile)
    window.forget(now_us)
    assert len(window) <= 2 * HOPS + 2  # those ahead of now are kept
    rows = window.at(now_us)[WHOLE].n
    hop = hop_of(window_us)
    least = sum(now_us - window_us < minute * MINUTE_US <= now_us - hop for minute in minutes)
    most = sum(now_us - window_us - 2 * hop < minute * MINUTE_US <= now_us + hop for minute in minutes)
    assert least <= rows <= most
    if hours == 1:
        assert rows == sum(now_us - window_us - MINUTE_US < minute * MINUTE_US <= now_us for minute in minutes)


def test_a_window_without_rows_tells_nothing() -> None:
    look = look_at(LAYOUT, Window(LAYOUT, HOUR_US).at(HOUR_US), policy_of(Drift()), {})
    assert (look.rows, look.multiple, look.drifted) == (0, None, ())


def test_the_greatest_multiple_is_above_one_where_something_drifted_and_only_there() -> None:
    for shift in np.linspace(1, 2, 21):
        changed = live() | {"amount": live(seed=2)["amount"] * shift}
        window = {WHOLE: Tile(3_000, counted(changed), {})}
        look = look_at(LAYOUT, window, policy_of(Drift()), {})
        assert look.multiple is not None
        assert (look.multiple > 1) == bool(look.drifted)
        assert look.multiples.keys() == set(LAYOUT.names)


def test_repeats_are_known_within_so_many_records() -> None:
    repeats = Repeats(within=10)
    told = [
        repeats.hear(0, offset, name) for offset, name in [(0, b"a"), (1, b"b"), (10, b"a"), (20, b"a"), (31, b"a")]
    ]
    assert told == [True, True, False, False, True]
    assert repeats.hear(1, 31, b"b")
    assert repeats.hear(0, 32, b"a", b"b") != repeats.hear(0, 33, b"a", b"b")


def test_what_is_remembered_is_bounded_and_begins_anew_after_a_step_that_failed() -> None:
    repeats = Repeats(within=10)
    for offset in range(1_000):
        assert repeats.hear(0, offset, str(offset).encode())
    assert len(repeats._told[0]) <= 21
    assert repeats.begin(0, 1_000) == 990
    repeats.end(0, 1_000)
    assert repeats.begin(0, 1_000) == 1_000
    assert repeats.begin(0, 1_000) == 990  # nobody said that the step before had ended


@pytest.mark.parametrize("value", [
    None, b"", b"null", b"[]", b"{}", b'{"version":1,"role":"champion","score":1,"features":{},"event_time_us":1}',
    b'{"version":"1","role":"champion","score":1,"features":[],"event_time_us":1}',
    b'{"version":"1","role":"champion","score":1,"features":{},"event_time_us":1.5}',
    b'{"version":"1","role":"champion","score":1,"features":{},"event_time_us":18446744073709551615}',
])  # fmt: skip
def test_what_is_no_prediction_is_no_vector(value: bytes | None) -> None:
    assert read_vector(value) is None


def test_values_of_another_kind_are_null() -> None:
    layout = Layout(references_of({"amount": np.arange(9.0), "country": np.array(["FR"] * 9, object)}, {}))
    said = {"version": "1", "role": "champion", "event_time_us": None, "decided_at_us": 7, "score": 0.5}
    told = [{"amount": True, "country": "DE"}, {"amount": "7", "country": 7}, {"amount": [], "country": None}, {}]
    found = [read_vector(orjson.dumps(said | {"features": features})) for features in told]
    columns = columns_of(layout, new_model("kinds"), [one for one in found if one is not None])
    assert columns["amount"].valid.tolist() == [True, False, False, False]
    assert columns["country"].valid.tolist() == [True, False, False, False]
    assert columns["amount"].data[0] == 1.0


def test_vectors_of_many_minutes_are_folded_in_shares(monkeypatch: pytest.MonkeyPatch) -> None:
    columns = served(1, 200)
    layout = Layout(references_of(columns, {"country": columns["country"]}))
    times = np.random.default_rng(1).integers(0, 100, 200) * MINUTE_US
    sent = [
        read_vector(orjson.dumps({"version": "1", "role": "champion", "event_time_us": one.time_us} | one._asdict()))
        for one in vectors(columns, times.tolist())
    ]
    given = [one for one in sent if one is not None]
    whole = sorted(parts_from(layout, new_model("minutes"), "1", given))
    monkeypatch.setattr("headrace.evaluate.vectors.COUNTS_AT_ONCE", 7 * layout.width)
    assert sorted(parts_from(layout, new_model("minutes"), "1", given)) == whole
    assert sum(part.n for part in whole if "{}" in part.key) == 200
