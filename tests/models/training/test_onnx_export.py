"""The ONNX export predicts what the estimator predicts, for all three libraries and for nulls; else it is rejected."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from lightgbm import LGBMClassifier, LGBMRegressor
from sklearn.compose import make_column_transformer
from sklearn.ensemble import GradientBoostingClassifier, HistGradientBoostingClassifier, RandomForestClassifier
from sklearn.impute import SimpleImputer
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler
from xgboost import XGBClassifier, XGBRegressor

from headrace.models.inference.input_binding import IncompatibleModelError
from headrace.models.inference.scorer import load_scorer
from headrace.models.training.estimator_fit import (
    FittedModel,
    InvalidEstimatorError,
    _estimator_scores,
    compute_metrics,
    fit_model,
    score_frame,
)
from headrace.models.training.examples import TrainingExamples, TrainTestSplit, build_examples, split_by_time
from headrace.models.training.onnx_export import OnnxExportFailed, _floor_to_float32
from tests.models.fraud import NUMBERS, frame, model, training_table

SMALL: dict[str, Any] = {"n_estimators": 20, "n_jobs": 1}


def on_numbers(estimator: Any, target: str = "fraud") -> Callable[[Any], Any]:
    return lambda rows: estimator.fit(rows[NUMBERS], rows[target])


def with_text(estimator: Any) -> Any:
    numbers = make_pipeline(SimpleImputer(), StandardScaler())
    text = OneHotEncoder(handle_unknown="ignore", sparse_output=False)
    return make_pipeline(make_column_transformer((numbers, NUMBERS), (text, ["country_1h"])), estimator)


ESTIMATORS: dict[str, Callable[[Any], Any]] = {
    "LightGBM": on_numbers(LGBMClassifier(**SMALL, verbose=-1)),
    "LightGBM regressor": on_numbers(LGBMRegressor(**SMALL, verbose=-1), "mean_1h"),
    "XGBoost": on_numbers(XGBClassifier(**SMALL)),
    "XGBoost regressor": on_numbers(XGBRegressor(**SMALL), "amount"),
    "a histogram of scikit-learn": on_numbers(HistGradientBoostingClassifier(max_iter=20)),
    "a pipeline": on_numbers(make_pipeline(SimpleImputer(), StandardScaler(), LogisticRegression())),
    "a regression": on_numbers(make_pipeline(SimpleImputer(), Ridge()), "amount"),
    "a pipeline with text": lambda rows: with_text(LogisticRegression()).fit(rows.drop(columns="fraud"), rows["fraud"]),
    "LightGBM after text": lambda rows: with_text(LGBMClassifier(**SMALL, verbose=-1)).fit(
        rows.drop(columns="fraud"), rows["fraud"]
    ),
}


def trained(train: Callable[[Any], Any], nulls: float = 0.1) -> FittedModel:
    declared = model(train)
    examples = build_examples(declared, training_table(nulls=nulls), "at")
    return fit_model(declared, examples, split_by_time(examples.times_us, 0.2))


@pytest.mark.parametrize("nulls", [0.0, 0.2], ids=["fitted on whole rows", "fitted on rows with nulls"])
@pytest.mark.parametrize("name", [name for name in ESTIMATORS if "regress" not in name])
def test_onnx_is_the_estimator(name: str, nulls: float) -> None:
    kept: list[Any] = []
    fitted = trained(lambda rows: kept.append(ESTIMATORS[name](rows)) or kept[0], nulls)
    scorer = load_scorer(model(), fitted.content, name)
    for unseen in (frame(seed=5, nulls=0.0), frame(seed=6, nulls=0.5)):  # no row of these was fitted on
        expected = _estimator_scores(kept[0], unseen, scorer.columns, fitted.kind)
        np.testing.assert_allclose(score_frame(scorer, unseen), expected, rtol=0, atol=1e-5)
    assert fitted.largest_difference <= 1e-5
    assert fitted.metrics["auc"] is not None
    assert fitted.metrics["auc"] > 0.8


@pytest.mark.parametrize("name", ["LightGBM regressor", "XGBoost regressor", "a regression"])
def test_onnx_is_the_estimator_of_amounts(name: str) -> None:
    def on_amounts(rows: Any) -> Any:
        whole = rows[rows["mean_1h"].notna()]
        return ESTIMATORS[name](whole)

    fitted = trained(on_amounts)
    assert fitted.kind == "regression"
    assert fitted.largest_difference <= 1e-5
    assert set(fitted.metrics) == {"rmse", "mae"}


@settings(max_examples=200)
@given(st.floats(-1e30, 1e30), st.floats(allow_nan=False, allow_infinity=False, width=32))
def test_a_floored_threshold_keeps_the_answer_for_every_float32(threshold: float, value: float) -> None:
    (floored,) = _floor_to_float32([threshold])
    near = [float(np.nextafter(np.float32(threshold), np.float32(way))) for way in (-np.inf, np.inf)]
    for x in (value, *near, float(np.float32(threshold))):
        assert (x <= floored) == (x <= threshold)


def test_values_that_are_neighbours_in_float32_fall_on_the_same_side() -> None:
    base = np.float32(5.0)
    neighbours = [base]
    for _ in range(400):
        neighbours.append(np.nextafter(neighbours[-1], np.float32(np.inf)))
    rows = frame(rows=401, nulls=0.0)
    rows["amount"], rows["fraud"] = np.array(neighbours), np.arange(401) % 2
    declared = model(
        on_numbers(LGBMClassifier(n_estimators=20, min_child_samples=1, max_bin=500, verbose=-1, n_jobs=1))
    )
    everything = TrainTestSplit(np.ones(401, np.bool_), np.ones(401, np.bool_))
    fitted = fit_model(declared, TrainingExamples(rows, np.arange(401), 0), everything)
    assert fitted.largest_difference <= 1e-6


def test_scores_do_not_depend_on_the_way_a_vector_comes() -> None:
    fitted = trained(ESTIMATORS["LightGBM"])
    scorer = load_scorer(model(), fitted.content, "m")
    table = training_table(300, seed=9, nulls=0.3)
    from headrace.models.inference.arrow_scoring import read_columns

    (batch,) = table.combine_chunks().to_batches()
    by_column = scorer.score(read_columns(batch, scorer.columns))
    by_row = scorer.score_rows([[row[one.name] for one in scorer.columns] for row in table.to_pylist()])
    by_one = [scorer.score_rows([[row[one.name] for one in scorer.columns]])[0] for row in table.to_pylist()]
    assert by_column.tolist() == by_row.tolist() == by_one


class Unknown(LogisticRegression):  # type: ignore[misc]
    """An estimator no converter knows."""


REFUSED: list[tuple[str, Callable[[Any], Any], type[Exception], str]] = [
    ("nothing", lambda _: None, InvalidEstimatorError, "train= returned None"),
    ("a class", lambda _: LogisticRegression, InvalidEstimatorError, "Return a fitted regressor"),
    ("its own label", lambda rows: LGBMClassifier(n_estimators=2, verbose=-1).fit(rows.drop(columns="country_1h"),
     rows["fraud"]), InvalidEstimatorError, "fitted on its own label 'fraud'"),
    ("a column of its own", lambda rows: LGBMClassifier(n_estimators=2, verbose=-1).fit(
        rows[["amount"]].rename(columns={"amount": "euros"}), rows["fraud"]), InvalidEstimatorError,
      "'euros', which no"),
    ("a part without names", lambda rows: LogisticRegression().fit(rows[["amount"]].to_numpy(), rows["fraud"]),
     InvalidEstimatorError, "without the names of columns"),
    ("one class", lambda rows: RandomForestClassifier(2).fit(rows[NUMBERS].fillna(0), rows["fraud"] * 0),
     InvalidEstimatorError, r"knows the classes \[0\]"),
    ("three classes", lambda rows: RandomForestClassifier(2).fit(rows[NUMBERS].fillna(0), np.arange(len(rows)) % 3),
     InvalidEstimatorError, r"knows the classes \[0, 1, 2\]"),
    ("no nulls", lambda rows: LogisticRegression().fit(rows[NUMBERS].fillna(0), rows["fraud"]), IncompatibleModelError,
     "answers nan to an entity never seen"),
    ("trees without nulls", lambda rows: GradientBoostingClassifier(n_estimators=2).fit(rows[NUMBERS].fillna(0),
     rows["fraud"]), (InvalidEstimatorError, ValueError), "NaN"),
]  # fmt: skip


@pytest.mark.parametrize(("train", "error", "said"), [row[1:] for row in REFUSED], ids=[row[0] for row in REFUSED])
def test_an_estimator_is_refused_that_was_fitted_on(train: Callable[[Any], Any], error: Any, said: str) -> None:
    with pytest.raises(error, match=said):
        trained(train, nulls=0.0)


def test_an_estimator_whose_onnx_disagrees_is_refused() -> None:
    """The forests of scikit-learn send nulls another way than their ONNX does."""
    with pytest.raises(
        InvalidEstimatorError, match=r"its ONNX says .* and its estimator .* rows differ\. It is not kept"
    ):
        trained(lambda rows: RandomForestClassifier(10, random_state=0).fit(rows[NUMBERS], rows["fraud"]), nulls=0.3)


def test_one_class_in_the_test_has_no_auc() -> None:
    found = compute_metrics("classification", np.zeros(5, int), np.full(5, 0.25))
    assert found["auc"] is None
    assert found["log_loss"] == pytest.approx(-np.log(0.75))


def test_metrics_are_what_loops_say() -> None:
    chance = np.random.default_rng(3)
    label, scores = chance.integers(0, 2, 300), chance.integers(0, 20, 300) / 20
    pairs = [(a, b) for a in scores[label == 1] for b in scores[label == 0]]
    expected = sum(1.0 if a > b else 0.5 if a == b else 0.0 for a, b in pairs) / len(pairs)
    assert compute_metrics("classification", label, scores)["auc"] == pytest.approx(expected)


def test_an_estimator_no_converter_knows_is_not_exported() -> None:
    with pytest.raises(OnnxExportFailed, match="Unknown cannot be exported"):
        trained(lambda rows: Unknown().fit(rows[NUMBERS].fillna(0), rows["fraud"]))
