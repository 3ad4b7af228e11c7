"""The features at a time are a mapping by key, over the entities that were fed."""

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

import pytest

import headrace as hr
from headrace.testing import UnfitQuestion
from tests.testing.hostile import AT, ByEverything, ByNumber, CardTaps, tap

EVENTS = [tap(), tap(id="t2", card="c2", n=5, ok=True, seen="2026-01-01T00:00:00Z"), tap(id="t3")]


def test_a_moment_iterates_over_the_keys_of_the_entities_fed() -> None:
    moment = hr.testing.feed(CardTaps, EVENTS).at(AT)
    assert isinstance(moment, Mapping)
    assert list(moment) == ["c1", "c2"]
    assert (len(moment), "c1" in moment, "c9" in moment) == (2, True, False)
    assert {key: row.taps_1h for key, row in moment.items()} == {"c1": 2, "c2": 1}
    assert [row.taps_1h for row in moment.values()] == [2, 1]
    assert moment["c9"].taps_1h == 0
    assert list(hr.testing.feed(CardTaps, []).at(AT)) == []


def test_keys_of_several_columns_are_tuples_that_find_their_row_again() -> None:
    moment = hr.testing.feed(ByEverything, EVENTS).at(AT)
    assert list(moment) == [(5, True, datetime(2026, 1, 1, tzinfo=UTC))]
    assert [moment[key].taps_1h for key in moment] == [1]
    assert list(hr.testing.feed(ByNumber, EVENTS).at(AT)) == [5]


def test_a_key_of_the_wrong_type_is_refused_wherever_it_is_asked_for() -> None:
    moment = hr.testing.feed(CardTaps, EVENTS).at(AT)
    for asked in (lambda: moment[5], lambda: moment.get(5), lambda: 5 in moment):
        with pytest.raises(UnfitQuestion, match=r'is 5, and card is a string. Write it as "c1"'):
            asked()


def test_what_was_fed_says_how_much_became_of_what() -> None:
    fed = hr.testing.feed(CardTaps, [*EVENTS, EVENTS[0], b"no JSON", hr.testing.late(tap(id="t4"), by="1h")])
    assert repr(fed) == "CardTaps fed with 3 clean, 1 duplicates, 1 late, 1 dead"
    assert repr(fed.at(AT)) == "CardTaps at 2026-01-01T00:05:00+00:00: 2 entities"
    assert repr(hr.testing.feed(CardTaps, [])) == "CardTaps fed with nothing"


@pytest.mark.timeout(30)
@pytest.mark.parametrize("asked", [list, tuple, lambda declared: "1h" in declared], ids=["list", "tuple", "in"])
def test_an_aggregate_that_gives_its_windows_by_name_cannot_be_iterated_over(asked: Any) -> None:
    with pytest.raises(TypeError, match="not iterable"):
        asked(hr.count(windows="1h"))
