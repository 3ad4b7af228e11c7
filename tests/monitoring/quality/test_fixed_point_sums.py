"""Sums of floats are exact in any order, and exactly zero once all values are removed."""

from fractions import Fraction

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from headrace.monitoring.quality.fixed_point_sums import (
    LARGE_PIECES,
    large_sum,
    small_sum,
    split_fixed_point,
    split_float,
)

FINITE = st.lists(st.floats(allow_nan=False, allow_infinity=False), max_size=30)
SMALL = st.lists(st.floats(0, 63.9), max_size=30)


def summed(values: list[float]) -> np.ndarray:
    places, pieces = split_float(np.array(values, dtype=np.float64))
    total = np.zeros(LARGE_PIECES, dtype=np.int64)
    np.add.at(total, places, pieces)
    return total


@given(FINITE)
def test_a_sum_of_any_floats_is_the_exact_one(values: list[float]) -> None:
    assert large_sum(summed(values)) == sum(map(Fraction, values), Fraction(0))


@given(FINITE, FINITE)
def test_what_is_taken_out_of_a_sum_leaves_the_integers_of_the_rest(kept: list[float], taken: list[float]) -> None:
    assert (summed([*kept, *taken]) - summed(taken) == summed(kept)).all()


@given(SMALL)
def test_a_small_sum_is_exact_but_for_what_no_float_shows(values: list[float]) -> None:
    exact = sum(map(Fraction, values), Fraction(0))
    total = split_fixed_point(np.array(values, dtype=np.float64)).sum(axis=0)
    assert abs(Fraction(small_sum(total)) - exact) <= Fraction(len(values), 2**59) + abs(exact) / 2**53
