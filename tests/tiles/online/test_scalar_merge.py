"""Merging a few rows without numpy equals merging them with it."""

import math
from itertools import chain

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import headrace as hr
from headrace.aggregates.aggregate_function import to_slot
from headrace.tiles.layout import hop_layouts
from headrace.tiles.online.feature_reader import _ColumnMerge
from headrace.tiles.online.scalar_merge import MAX_SCALAR_ROWS

PAYMENTS = hr.Stream(
    "payments",
    schema="id string, card string, amount double, cents bigint, at timestamp",
    id="id",
    key="card",
    time="at",
)


@hr.features(PAYMENTS, by="card")
class Everything:
    payments = hr.count(windows="1h")
    spend = hr.sum("amount", windows="1h")
    cents = hr.sum("cents", windows="1h")
    spread = hr.stddev("amount", windows="1h")
    recent = hr.ewm("amount", halflife="1m", windows="1h")
    least = hr.min("amount", windows="1h")
    most = hr.max("amount", windows="1h")
    least_cents = hr.min("cents", windows="1h")
    most_cents = hr.max("cents", windows="1h")


(LAYOUT,) = hop_layouts(Everything)
MERGE = _ColumnMerge(LAYOUT, {to_slot(feature.aggregate).partial for feature in Everything.features})

numbers = st.floats(-1e6, 1e6) | st.sampled_from([math.nan, math.inf, -math.inf, 0.0])


@st.composite
def rows(draw: st.DrawFn) -> bytes:
    """Rows as tiles have them: counts from 0 on, and any number elsewhere."""
    ints = sum(block.store == "int" for _, block in LAYOUT.fixed_columns)
    one = st.tuples(
        st.tuples(*[st.integers(0, 1000)] * (4 + ints)), st.tuples(*[numbers] * (len(LAYOUT.fixed_columns) - ints))
    )
    drawn = draw(st.lists(one, min_size=1, max_size=MAX_SCALAR_ROWS))
    return b"".join(LAYOUT.row_struct.pack(*chain(*fields)) for fields in drawn)


@given(held=rows())
def test_a_few_rows_merge_as_numpy_merges_them(held: bytes) -> None:
    with np.errstate(all="ignore"):
        expected = MERGE._merge_arrays(bytearray(held))
    merged = MERGE.merge_columns(bytearray(held))
    assert merged == pytest.approx(expected, rel=1e-9, abs=1e-6, nan_ok=True)
    assert [type(value) for value in merged] == [type(value) for value in expected]
