"""Nexmark's events: their properties, and that the vectorized generator makes the same ones."""

from dataclasses import asdict
from itertools import chain

import numpy as np
import pyarrow.compute as pc
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bench.nexmark.columns import Events, ended, events, events_of
from bench.nexmark.generate import EPOCH, FIRST_ID, OPEN, Auction, Bid, Person, Shape, event

SHAPES = st.builds(
    Shape,
    seed=st.integers(0, 2**40),
    rate=st.integers(10, 1_000_000),
    group=st.integers(1, 900),
)


def rows(made: Events) -> list[dict[str, object]]:
    """All events of all kinds, by number."""
    return sorted(chain.from_iterable(table.to_pylist() for _, table in made), key=lambda row: row["number"])


@given(st.lists(st.integers(0, 10**9), min_size=1, max_size=60, unique=True), SHAPES)
def test_an_event_made_among_many_is_the_event_made_alone(numbers: list[int], shape: Shape) -> None:
    assert rows(events_of(np.array(numbers, np.int64), shape)) == [asdict(event(one, shape)) for one in sorted(numbers)]


@given(st.integers(0, 10**6), st.integers(1, 300), SHAPES)
def test_the_log_has_the_event_of_each_place_in_its_order(first: int, count: int, shape: Shape) -> None:
    numbers = [shape.number_at(place) for place in range(first, first + count)]
    bids = [one for one in numbers if isinstance(event(one, shape), Bid)]
    assert events(count, shape, first).bids["number"].to_pylist() == bids


@given(st.integers(1, 900), st.integers(0, 1_000))
def test_disorder_loses_and_repeats_no_event_and_stays_in_its_group(group: int, which: int) -> None:
    places = range(which * group, (which + 1) * group)
    assert sorted(Shape(group=group).number_at(place) for place in places) == list(places)


def test_of_fifty_events_one_is_a_person_three_are_auctions_and_the_rest_bids() -> None:
    kinds = [type(event(number, Shape())) for number in range(10 * EPOCH)]
    assert [kinds.count(kind) for kind in (Person, Auction, Bid)] == [10, 30, 460]


def test_event_times_grow_with_the_rate() -> None:
    times = np.sort(np.concatenate([table["happened_ms"].to_numpy() for _, table in events(5_000, Shape(rate=500))]))
    assert times[-1] - times[0] == 4_999 * 1_000 // 500
    assert np.diff(times).max() == 2


def test_ids_are_counted_up_and_another_seed_makes_other_events() -> None:
    one, other = events(5_000, Shape(seed=1)), events(5_000, Shape(seed=2))
    assert one.auctions["id"].to_pylist() == list(range(FIRST_ID, FIRST_ID + 300))
    assert one.auctions["id"] == other.auctions["id"]
    assert pc.mean(pc.equal(one.bids["price"], other.bids["price"])).as_py() < 0.01


def test_half_of_the_bids_are_for_hot_auctions_and_three_quarters_by_hot_bidders() -> None:
    bids = events(100_000, Shape()).bids
    hot = (bids["auction"].to_numpy() - FIRST_ID) % 100 == 0
    by_hot = (bids["bidder"].to_numpy() - FIRST_ID) % 100 == 1
    assert hot.mean() == pytest.approx(0.505, abs=0.01)
    assert by_hot.mean() == pytest.approx(0.7525, abs=0.01)


def test_a_price_is_as_likely_in_every_decade() -> None:
    prices = events(100_000, Shape()).bids["price"].to_numpy()
    decades = np.bincount(np.log10(prices).astype(int), minlength=8)[2:8]
    assert decades / len(prices) == pytest.approx(np.full(6, 1 / 6), abs=0.01)


def test_events_have_about_the_sizes_of_nexmark() -> None:
    made = events(50_000, Shape())
    texts = {
        "persons": ("name", "email", "card", "city", "state", "extra"),
        "auctions": ("item", "description", "extra"),
        "bids": ("extra",),
    }
    numbers = {"persons": 1, "auctions": 5, "bids": 4}
    sizes = {
        name: 8 * numbers[name] + sum(pc.mean(pc.utf8_length(table[column])).as_py() for column in texts[name])
        for name, table in made
    }
    assert sizes == pytest.approx({"persons": 200, "auctions": 500, "bids": 100}, rel=0.1)


@given(st.integers(1, 300), SHAPES)
def test_what_ends_the_log_is_one_event_a_kind_days_later_and_for_nothing_before(count: int, shape: Shape) -> None:
    whole, before = ended(count, shape), events(count, shape)
    assert [len(table) - len(was) for (_, table), (_, was) in zip(whole, before, strict=True)] == [1, 1, 1]
    latest = shape.happened_ms(count + shape.group) + shape.longest_ms
    assert all(table["happened_ms"][-1].as_py() > latest for _, table in whole)
    assert whole.bids["auction"][-1].as_py() > max(whole.auctions["id"].to_pylist()) + OPEN
