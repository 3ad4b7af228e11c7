"""Most frequent values from sketches: exact while a map holds every value, within its error beyond."""

import random
from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.aggregates.sketches.frequent_items import (
    MAX_TEXT_LENGTH,
    build_frequent_sketch,
    counts_by_value,
    map_capacity,
    most_frequent,
)
from headrace.aggregates.sketches.sketch_sizes import frequent_items_lg_size
from headrace.declare.streams.schema import Kind

LG_MAP = frequent_items_lg_size(0.02)

texts = st.text(max_size=5).filter(lambda text: text.isascii() or text.encode(errors="ignore").decode() == text)
integers = st.sampled_from([0, -1, 2**63 - 1, -(2**63)]) | st.integers(-5, 5)


def by_definition(values: list[int | str], k: int) -> list[int | str]:
    return [value for value, _ in counted(values)[:k]]


def counted(values: list[int | str]) -> list[tuple[int | str, int]]:
    return sorted(Counter(values).items(), key=lambda item: (-item[1], item[0]))


@given(parts=st.lists(st.lists(texts, max_size=30), max_size=6), k=st.integers(1, 10))
def test_few_different_texts_in_any_number_of_tiles_are_exact(parts: list[list[str]], k: int) -> None:
    found = most_frequent([build_frequent_sketch(part, LG_MAP) for part in parts], k, Kind.STRING)
    assert found == by_definition([value for part in parts for value in part], k)


@given(parts=st.lists(st.lists(integers, max_size=30), max_size=6), k=st.integers(1, 10))
def test_few_different_numbers_in_any_number_of_tiles_are_exact(parts: list[list[int]], k: int) -> None:
    found = most_frequent([build_frequent_sketch(part, LG_MAP) for part in parts], k, Kind.INTEGER)
    assert found == by_definition([value for part in parts for value in part], k)


@given(parts=st.lists(st.lists(texts, max_size=30), max_size=6))
def test_counts_of_few_different_texts_are_exact_and_in_order(parts: list[list[str]]) -> None:
    found = counts_by_value([build_frequent_sketch(part, LG_MAP) for part in parts], Kind.STRING)
    assert list(found.items()) == counted([value for part in parts for value in part])


@given(parts=st.lists(st.lists(integers, max_size=30), max_size=6))
def test_counts_of_few_different_numbers_are_exact_and_in_order(parts: list[list[int]]) -> None:
    found = counts_by_value([build_frequent_sketch(part, LG_MAP) for part in parts], Kind.INTEGER)
    assert list(found.items()) == counted([value for part in parts for value in part])


def test_counts_of_booleans_are_by_booleans() -> None:
    found = counts_by_value([build_frequent_sketch([True, False, True], LG_MAP)], Kind.BOOLEAN)
    assert repr(found) == "{True: 2, False: 1}"


@pytest.mark.parametrize("seed", range(5))
def test_counts_of_many_different_values_are_never_too_great_and_short_by_the_error_at_most(seed: int) -> None:
    chance = random.Random(seed)
    parts = [[int(chance.paretovariate(0.7)) % 10_000 for _ in range(chance.randint(500, 5000))] for _ in range(8)]
    counts = Counter(value for part in parts for value in part)
    found = counts_by_value([build_frequent_sketch(part, LG_MAP) for part in parts], Kind.INTEGER)
    short = [count - found.get(value, 0) for value, count in counts.items()]
    assert min(short) >= 0
    assert 0 < max(short) <= 0.02 * counts.total()


def test_booleans_come_back_as_booleans() -> None:
    (first, second) = most_frequent([build_frequent_sketch([True, False, True], LG_MAP)], 2, Kind.BOOLEAN)
    assert (first, second) == (True, False)
    assert type(first) is bool


@pytest.mark.parametrize("seed", range(5))
def test_many_different_values_are_within_the_stated_error(seed: int) -> None:
    chance = random.Random(seed)
    parts = [[f"m{int(chance.paretovariate(0.7))}" for _ in range(chance.randint(500, 5000))] for _ in range(8)]
    counts = Counter(value for part in parts for value in part)
    found = most_frequent([build_frequent_sketch(part, LG_MAP) for part in parts], 10, Kind.STRING)
    least_given = min(counts[value] for value in found)
    most_missed = max(count for value, count in counts.items() if value not in found)
    assert most_missed - least_given <= 0.02 * counts.total()


def test_a_full_map_keeps_the_most_frequent() -> None:
    capacity = map_capacity(LG_MAP)
    values = [f"{number:04}" for number in range(2 * capacity)] + ["9999"] * 2
    found = most_frequent([build_frequent_sketch(values, LG_MAP)], 2 * capacity, Kind.STRING)
    assert (found[0], len(found)) == ("9999", capacity)


def test_a_long_text_counts_by_its_beginning() -> None:
    long = ["é" * MAX_TEXT_LENGTH + tail for tail in "ab"]
    assert most_frequent([build_frequent_sketch(long, LG_MAP)], 3, Kind.STRING) == ["é" * MAX_TEXT_LENGTH]


@pytest.mark.parametrize("error", [0.001, 0.01, 0.02, 0.05, 0.25])
def test_a_map_is_large_enough_for_its_error_and_any_top(error: float) -> None:
    assert 3.5 / (1 << frequent_items_lg_size(error)) <= error
    assert map_capacity(frequent_items_lg_size(error)) >= 100
