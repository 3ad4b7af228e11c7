"""Examples are split by time: no fit sees a later row, or a label that arrived later."""

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.models.training.examples import InvalidExamplesError, build_examples, split_by_time
from tests.models.fraud import model, training_table

times = st.lists(st.integers(0, 60), min_size=10, max_size=200)


@given(times, st.floats(0.01, 0.9), st.integers(0, 20))
def test_nothing_later_leaks_into_what_is_fitted_on(moments: list[int], share: float, embargo_us: int) -> None:
    times_us = np.array(moments, np.int64)
    try:
        split = split_by_time(times_us, share, embargo_us)
    except InvalidExamplesError:
        assert times_us.min() >= np.sort(times_us)[int(len(moments) * (1 - share))] - embargo_us
        return
    assert split.test.any()
    assert split.train.any()
    assert not (split.train & split.test).any()
    assert times_us[split.train].max() + embargo_us < times_us[split.test].min()
    assert split.test.sum() >= int(len(moments) * share)


def test_the_embargo_is_the_time_labels_take() -> None:
    examples = build_examples(model(), training_table(), "at")
    split = split_by_time(examples.times_us, 0.2, 600_000_000)
    gap_us = examples.times_us[split.test].min() - examples.times_us[split.train].max()
    assert gap_us > 600_000_000
    assert 0 < (~split.train & ~split.test).sum() < 50


def test_few_rows_are_refused() -> None:
    with pytest.raises(InvalidExamplesError, match="9 labelled rows are too few"):
        split_by_time(np.arange(9), 0.2)
    with pytest.raises(InvalidExamplesError, match="No row is left to fit on"):
        split_by_time(np.full(50, 7), 0.2)


def test_the_order_of_rows_changes_nothing() -> None:
    table = training_table(500)
    shuffled = table.take(np.random.default_rng(1).permutation(500))
    one, other = build_examples(model(), table, "at"), build_examples(model(), shuffled, "at")
    assert one.data_sha256 == other.data_sha256
    assert one.frame.equals(other.frame)
    changed = table.set_column(table.column_names.index("units"), "units", pa.array(np.arange(500)))
    assert build_examples(model(), changed, "at").data_sha256 != one.data_sha256


def test_numbers_are_floats_with_nan_and_texts_have_none() -> None:
    found = build_examples(model(), training_table(nulls=0.5), "at").frame
    assert {str(found[name].dtype) for name in found if name not in ("country_1h", "fraud")} == {"float32"}
    assert set(found["country_1h"]) == {"", "FR", "DE", "IT"}
    assert found["online"].isna().mean() == pytest.approx(0.5, abs=0.1)
    assert set(found["fraud"]) == {0, 1}


def test_rows_without_a_label_or_a_time_are_counted_and_left_out() -> None:
    table = training_table(100)
    hidden = pa.array([None] * 30 + table["fraud"].to_pylist()[30:], pa.bool_())
    table = table.set_column(table.column_names.index("fraud"), "fraud", hidden)
    late = pa.array(
        [None if place == 50 else one for place, one in enumerate(table["at"].to_pylist())], table["at"].type
    )
    table = table.set_column(table.column_names.index("at"), "at", late)
    found = build_examples(model(), table, "at")
    assert (len(found.frame), found.unlabelled) == (69, 31)


@pytest.mark.parametrize("name", ["fraud", "units", "at"])
def test_a_spine_without_what_a_model_reads_is_refused(name: str) -> None:
    with pytest.raises(InvalidExamplesError, match=f"no column '{name}'"):
        build_examples(model(), training_table(20).drop_columns([name]), "at")


def test_a_label_that_is_text_is_refused() -> None:
    table = training_table(20)
    table = table.set_column(table.column_names.index("fraud"), "fraud", pa.array(["yes"] * 20))
    with pytest.raises(InvalidExamplesError, match="the label 'fraud' is string"):
        build_examples(model(), table, "at")
