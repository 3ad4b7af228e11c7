"""Quantiles from KLL sketches: exact while a sketch holds every value, within its error beyond."""

import math
import random

import pytest
from datasketches import kll_doubles_sketch
from hypothesis import given
from hypothesis import strategies as st

from headrace.aggregates.sketches.quantiles import build_quantile_sketch, estimate_quantile
from headrace.aggregates.sketches.sketch_sizes import kll_k

SHARES = (0, 0.01, 0.25, 0.5, 0.75, 0.99, 1)
K = kll_k(0.02)


def by_definition(values: list[float], share: float) -> float | None:
    ordered = sorted(value for value in values if not math.isnan(value))
    return ordered[max(1, math.ceil(share * len(ordered))) - 1] if ordered else None


@given(parts=st.lists(st.lists(st.floats(), max_size=30), max_size=6), share=st.sampled_from(SHARES) | st.floats(0, 1))
def test_few_values_in_any_number_of_tiles_are_exact(parts: list[list[float]], share: float) -> None:
    found = estimate_quantile([build_quantile_sketch(part, K) for part in parts], share)
    assert found == by_definition([value for part in parts for value in part], share)


@pytest.mark.parametrize("seed", range(10))
def test_many_values_are_within_the_stated_error_of_rank(seed: int) -> None:
    chance = random.Random(seed)
    parts = [[chance.lognormvariate(3, 2) for _ in range(chance.randint(0, 4000))] for _ in range(12)]
    values = sorted(value for part in parts for value in part)
    sketches = [build_quantile_sketch(part, K) for part in parts]
    for share in SHARES:
        found = estimate_quantile(sketches, share)
        assert found is not None
        rank = sum(value <= found for value in values) / len(values)
        assert abs(rank - share) <= 0.02 + 1 / len(values)
    assert [estimate_quantile(sketches, share) for share in (0, 1)] == [values[0], values[-1]]


def test_the_same_question_has_the_same_answer() -> None:
    sketches = [build_quantile_sketch([float(number) for number in range(5000)], K) for _ in range(3)]
    assert len({estimate_quantile(sketches, 0.37) for _ in range(20)}) == 1


@pytest.mark.parametrize("error", [0.001, 0.01, 0.02, 0.05, 0.25])
def test_a_sketch_is_as_good_as_its_stated_error(error: float) -> None:
    assert kll_doubles_sketch.get_normalized_rank_error(kll_k(error), False) <= error
