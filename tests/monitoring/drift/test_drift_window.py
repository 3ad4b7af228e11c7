"""A window has the rows of its minutes, whatever its length; of each vector, the first record counts, unchanged."""

import numpy as np
import orjson
import pytest

from headrace.aggregates.value_columns import ValueColumn
from headrace.declare.models.drift import Drift
from headrace.models.versions.reference_distribution import build_references
from headrace.monitoring.drift.drift_fold import fold_rows
from headrace.monitoring.drift.drift_layout import ALL_ROWS, DriftLayout
from headrace.monitoring.drift.drift_tile import DriftTile
from headrace.monitoring.drift.drift_window import HOPS_PER_WINDOW, MINUTE_US, DriftWindow, window_hop_us
from headrace.monitoring.drift.drift_writer import fold_parts
from headrace.monitoring.drift.served_columns import decode_vector, extract_columns
from headrace.monitoring.drift.window_report import create_policy, create_window_report
from headrace.monitoring.outcomes.duplicate_predictions import DuplicatePredictionFilter
from tests.monitoring.drift.test_drift_tests import LAYOUT, counted, live
from tests.monitoring.served_vectors import drawn as served
from tests.monitoring.served_vectors import new_model, vectors

HOUR_US = 60 * MINUTE_US
SMALL = DriftLayout(build_references({"x": np.arange(10.0)}, {}))


def tiles(minutes: list[int]) -> list:
    values = ValueColumn(np.zeros(len(minutes)), np.ones(len(minutes), np.bool_))
    return list(fold_rows(SMALL, {"x": values}, np.array(minutes) * MINUTE_US).items())


@pytest.mark.parametrize("hours", [1, 24, 24 * 7])
def test_a_window_is_never_short_and_at_most_a_hop_too_long(hours: int) -> None:
    rng, window_us = np.random.default_rng(hours), hours * HOUR_US
    minutes = rng.integers(0, 3 * 60 * hours, 500).tolist()
    window, now_us = DriftWindow(SMALL, window_us), 2 * window_us
    for (segment, minute_us), tile in tiles(minutes):
        window.add_tile(segment, minute_us, tile)
    window.forget_expired(now_us)
    assert len(window) <= 2 * HOPS_PER_WINDOW + 2  # those ahead of now are kept
    rows = window.tiles_at(now_us)[ALL_ROWS].n
    hop = window_hop_us(window_us)
    least = sum(now_us - window_us < minute * MINUTE_US <= now_us - hop for minute in minutes)
    most = sum(now_us - window_us - 2 * hop < minute * MINUTE_US <= now_us + hop for minute in minutes)
    assert least <= rows <= most
    if hours == 1:
        assert rows == sum(now_us - window_us - MINUTE_US < minute * MINUTE_US <= now_us for minute in minutes)


def test_a_window_without_rows_tells_nothing() -> None:
    look = create_window_report(LAYOUT, DriftWindow(LAYOUT, HOUR_US).tiles_at(HOUR_US), create_policy(Drift()), {})
    assert (look.rows, look.multiple, look.drifted) == (0, None, ())


def test_the_greatest_multiple_is_above_one_where_something_drifted_and_only_there() -> None:
    for shift in np.linspace(1, 2, 21):
        changed = live() | {"amount": live(seed=2)["amount"] * shift}
        window = {ALL_ROWS: DriftTile(3_000, counted(changed), {})}
        look = create_window_report(LAYOUT, window, create_policy(Drift()), {})
        assert look.multiple is not None
        assert (look.multiple > 1) == bool(look.drifted)
        assert look.multiples.keys() == set(LAYOUT.names)


def test_repeats_are_known_within_so_many_records() -> None:
    repeats = DuplicatePredictionFilter(window_records=10)
    told = [
        repeats.observe_record(0, offset, name)
        for offset, name in [(0, b"a"), (1, b"b"), (10, b"a"), (20, b"a"), (31, b"a")]
    ]
    assert told == [True, True, False, False, True]
    assert repeats.observe_record(1, 31, b"b")
    assert repeats.observe_record(0, 32, b"a", b"b") != repeats.observe_record(0, 33, b"a", b"b")


def test_what_is_remembered_is_bounded_and_begins_anew_after_a_step_that_failed() -> None:
    repeats = DuplicatePredictionFilter(window_records=10)
    for offset in range(1_000):
        assert repeats.observe_record(0, offset, str(offset).encode())
    assert len(repeats._offsets_by_digest[0]) <= 21
    assert repeats.begin_partition(0, 1_000) == 990
    repeats.end_partition(0, 1_000)
    assert repeats.begin_partition(0, 1_000) == 1_000
    assert repeats.begin_partition(0, 1_000) == 990  # the previous step was not reported as complete


@pytest.mark.parametrize("value", [
    None, b"", b"null", b"[]", b"{}", b'{"version":1,"role":"champion","score":1,"features":{},"event_time_us":1}',
    b'{"version":"1","role":"champion","score":1,"features":[],"event_time_us":1}',
    b'{"version":"1","role":"champion","score":1,"features":{},"event_time_us":1.5}',
    b'{"version":"1","role":"champion","score":1,"features":{},"event_time_us":18446744073709551615}',
])  # fmt: skip
def test_what_is_no_prediction_is_no_vector(value: bytes | None) -> None:
    assert decode_vector(value) is None


def test_values_of_another_kind_are_null() -> None:
    layout = DriftLayout(build_references({"amount": np.arange(9.0), "country": np.array(["FR"] * 9, object)}, {}))
    said = {"version": "1", "role": "champion", "event_time_us": None, "decided_at_us": 7, "score": 0.5}
    told = [{"amount": True, "country": "DE"}, {"amount": "7", "country": 7}, {"amount": [], "country": None}, {}]
    found = [decode_vector(orjson.dumps(said | {"features": features})) for features in told]
    columns = extract_columns(layout, new_model("kinds"), [one for one in found if one is not None])
    assert columns["amount"].valid.tolist() == [True, False, False, False]
    assert columns["country"].valid.tolist() == [True, False, False, False]
    assert columns["amount"].data[0] == 1.0


def test_vectors_of_many_minutes_are_folded_in_shares(monkeypatch: pytest.MonkeyPatch) -> None:
    columns = served(1, 200)
    layout = DriftLayout(build_references(columns, {"country": columns["country"]}))
    times = np.random.default_rng(1).integers(0, 100, 200) * MINUTE_US
    sent = [
        decode_vector(orjson.dumps({"version": "1", "role": "champion", "event_time_us": one.time_us} | one._asdict()))
        for one in vectors(columns, times.tolist())
    ]
    given = [one for one in sent if one is not None]
    whole = sorted(fold_parts(layout, new_model("minutes"), "1", given))
    monkeypatch.setattr("headrace.monitoring.drift.drift_writer.MAX_COUNTS_PER_FOLD", 7 * layout.width)
    assert sorted(fold_parts(layout, new_model("minutes"), "1", given)) == whole
    assert sum(part.n for part in whole if "{}" in part.key) == 200
