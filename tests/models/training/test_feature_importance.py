"""Feature importance of estimators: shares that sum to one, or nothing if an estimator has none."""

import numpy as np
import pytest
from sklearn.linear_model import LinearRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import PolynomialFeatures, StandardScaler

from headrace.models.training.feature_importance import estimator_importance
from tests.models.fraud import NUMBERS, frame
from tests.models.training.test_onnx_export import ESTIMATORS


def rows() -> object:
    import pandas as pd

    rng = np.random.default_rng(0)
    return pd.DataFrame({"large": 1000 * rng.normal(size=500), "small": rng.normal(size=500)})


@pytest.mark.parametrize("name", ["LightGBM", "XGBoost", "a pipeline"])
def test_an_estimator_of_numbers_says_how_much_each_matters(name: str) -> None:
    trained_on = frame(seed=1)
    found = estimator_importance(ESTIMATORS[name](trained_on), trained_on, NUMBERS)
    assert found is not None
    assert list(found) == NUMBERS
    assert sum(found.values()) == pytest.approx(1)


@pytest.mark.parametrize("name", ["a histogram of scikit-learn", "a pipeline with text", "LightGBM after text"])
def test_one_that_says_nothing_of_its_inputs_has_none(name: str) -> None:
    trained_on = frame(seed=1)
    estimator = ESTIMATORS[name](trained_on)
    assert estimator_importance(estimator, trained_on, [str(one) for one in estimator.feature_names_in_]) is None


@pytest.mark.parametrize("steps", [(), (StandardScaler(),)])
def test_a_coefficient_counts_with_the_spread_of_what_it_multiplies(steps: tuple) -> None:
    table = rows()
    label = table["large"] / 1000 + 3 * table["small"]
    estimator = make_pipeline(*steps, LinearRegression()).fit(table, label)
    assert estimator_importance(estimator, table, ["large", "small"]) == pytest.approx(
        {"large": 0.25, "small": 0.75}, abs=0.03
    )


def test_steps_that_make_other_columns_leave_nothing_to_say() -> None:
    table = rows()
    estimator = make_pipeline(PolynomialFeatures(), LinearRegression()).fit(table, table["small"])
    assert estimator_importance(estimator, table, ["large", "small"]) is None
