"""Recent heavy hitters: the bounds hold whatever the sketch evicts, and an expired half is dropped."""

from collections import Counter

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.aggregates.sketches.heavy_hitters import HALF_WINDOW_US, LG_MAP, RecentKeyCounts, find_heavy_hitters

NOW_US = 100 * HALF_WINDOW_US + HALF_WINDOW_US // 2


def planted(seed: int) -> list[str]:
    """20,000 events of a long tail of keys, three tenths of which are of one key."""
    draws = np.random.default_rng(seed)
    tail = draws.zipf(1.1, 14_000) % 500_000
    keys = np.array([f"c{number}" for number in tail] + ["the hot one"] * 6_000)
    draws.shuffle(keys)
    return [str(key) for key in keys]


def counted(keys: list[str], at_us: int = NOW_US, at_once: int = 500) -> RecentKeyCounts:
    recent = RecentKeyCounts()
    for first in range(0, len(keys), at_once):
        recent.add_counts(Counter(keys[first : first + at_once]), at_us)
    return recent


@pytest.mark.parametrize("seed", range(3))
def test_a_planted_hot_key_is_named_and_the_bounds_hold_the_truth(seed: int) -> None:
    keys = planted(seed)
    truth = Counter(keys)
    assert len(truth) > 1 << LG_MAP, "there must be more keys than room for them"
    found = find_heavy_hitters([counted(keys)], NOW_US, limit=10)
    assert found.events == len(keys)
    assert found.keys[0].key == "the hot one"
    for one in found.keys:
        assert one.at_least <= truth[one.key] <= one.at_most
        assert one.at_most - one.at_least <= 3.5 / (1 << LG_MAP) * len(keys)


def test_bounds_hold_of_several_counts_and_both_halves_together() -> None:
    first, second = planted(1), planted(2)
    early, late = counted(first, NOW_US - HALF_WINDOW_US), counted(second)
    early.add_counts(Counter(second[:5_000]), NOW_US)
    truth = Counter([*first, *second, *second[:5_000]])
    found = find_heavy_hitters([early, late], NOW_US, limit=5)
    assert found.events == truth.total()
    assert all(one.at_least <= truth[one.key] <= one.at_most for one in found.keys)


def test_a_half_that_is_over_is_let_go_of_whether_or_not_more_comes() -> None:
    recent = counted(["old"] * 10, NOW_US - 2 * HALF_WINDOW_US)
    assert find_heavy_hitters([recent], NOW_US, 5).keys == ()
    recent.add_counts({"new": 3}, NOW_US)
    recent.add_counts({"too late": 3}, NOW_US - 2 * HALF_WINDOW_US)
    recent.add_counts({"before": 1}, NOW_US - HALF_WINDOW_US)
    assert [one.key for one in find_heavy_hitters([recent], NOW_US, 5).keys] == ["new", "before"]


def test_the_time_counted_begins_with_the_window_or_with_the_first_event() -> None:
    assert find_heavy_hitters([counted(["c"], NOW_US - 60_000_000)], NOW_US, 1).seconds == 60
    began_before = counted(["c"], NOW_US - 10 * HALF_WINDOW_US)
    began_before.add_counts({"c": 1}, NOW_US)
    assert find_heavy_hitters([began_before], NOW_US, 1).seconds == 1.5 * HALF_WINDOW_US / 1e6
    assert find_heavy_hitters([RecentKeyCounts()], NOW_US, 1).seconds == 0


@given(st.lists(st.tuples(st.integers(0, 3), st.text(max_size=3)), max_size=60))
def test_few_keys_are_counted_exactly_in_any_order_of_halves(events: list[tuple[int, str]]) -> None:
    recent, newest, truth = RecentKeyCounts(), 0, dict[int, Counter[str]]()
    for half, key in events:
        newest = max(newest, half)
        if half >= newest - 1:
            truth.setdefault(half, Counter())[key] += 1
        recent.add_counts({key: 1}, half * HALF_WINDOW_US)
    kept = sum((truth.get(half, Counter()) for half in (newest - 1, newest)), Counter[str]())
    found = find_heavy_hitters([recent], newest * HALF_WINDOW_US, limit=100)
    assert {one.key: one.at_least for one in found.keys} == kept
    assert all(one.at_least == one.at_most for one in found.keys)
