"""Exports estimators to ONNX, each with its own converter library, through skl2onnx.

Inputs are float32, and so is the frame an estimator is fitted on: the estimator and the ONNX compare the same value
with a threshold. LightGBM's thresholds are doubles; each becomes the greatest float32 that is not above it, so that
x <= threshold has the same result for every float32 x.
"""

import copy
import json
from collections.abc import Sequence
from typing import Any

import numpy as np
import onnx
from lightgbm import LGBMClassifier, LGBMRegressor
from onnxmltools.convert.lightgbm.operator_converters.LightGbm import convert_lightgbm
from onnxmltools.convert.xgboost.operator_converters.XGBoost import convert_xgboost
from skl2onnx import to_onnx, update_registered_converter
from skl2onnx.common.data_types import FloatTensorType, StringTensorType
from skl2onnx.common.shape_calculator import (
    calculate_linear_classifier_output_shapes,
    calculate_linear_regressor_output_shapes,
)
from skl2onnx.operator_converters.random_forest import (
    convert_sklearn_random_forest_classifier,
    convert_sklearn_random_forest_regressor_converter,
)
from sklearn.base import is_classifier
from sklearn.compose import ColumnTransformer
from sklearn.ensemble import HistGradientBoostingClassifier, HistGradientBoostingRegressor
from xgboost import XGBClassifier, XGBRegressor

from headrace.declare.streams.schema import Column, Kind
from headrace.errors import HeadraceError
from headrace.models.inference.onnx_model import INPUTS_KEY

OPSET = {"": 17, "ai.onnx.ml": 3}
VECTOR_INPUT = "features"


class OnnxExportFailed(HeadraceError):
    """An estimator that cannot be exported to ONNX."""


def export_to_onnx(estimator: Any, columns: Sequence[Column]) -> bytes:
    """The ONNX of an estimator that was fitted on these columns, with their names in it."""
    options = {"zipmap": False} if is_classifier(estimator) else None
    try:
        onnx_model = to_onnx(
            copy.deepcopy(estimator),  # the converters may change their input
            initial_types=_initial_types(estimator, columns),
            options=options,
            target_opset=OPSET,
        )
    except Exception as failure:
        raise OnnxExportFailed(
            f"{type(estimator).__name__} cannot be exported to ONNX: {failure}. Use scikit-learn, LightGBM or XGBoost "
            "estimators and transformers that skl2onnx and onnxmltools know."
        ) from failure
    onnx.helper.set_model_props(onnx_model, {INPUTS_KEY: json.dumps([column.name for column in columns])})
    content: bytes = onnx_model.SerializeToString()
    return content


def _initial_types(estimator: Any, columns: Sequence[Column]) -> list[tuple[str, Any]]:
    """One input for all columns, or one for each where a ColumnTransformer selects them by name."""
    if not _has_column_transformer(estimator):
        return [(VECTOR_INPUT, FloatTensorType([None, len(columns)]))]
    return [
        (column.name, (StringTensorType if column.kind is Kind.STRING else FloatTensorType)([None, 1]))
        for column in columns
    ]


def _has_column_transformer(estimator: Any) -> bool:
    inner_estimators = [
        getattr(estimator, "best_estimator_", None),
        *(step for _, step in getattr(estimator, "steps", ())),
    ]
    return isinstance(estimator, ColumnTransformer) or any(
        _has_column_transformer(inner_estimator) for inner_estimator in inner_estimators if inner_estimator is not None
    )


class _Float32Container:
    """A node container that floors tree thresholds to float32 and uses plain Python values, as onnx requires."""

    def __init__(self, container: Any) -> None:
        self._container = container

    def __getattr__(self, name: str) -> Any:
        return getattr(self._container, name)

    def add_node(self, *positional: Any, **attributes: Any) -> Any:
        for name, values in attributes.items():
            if name == "nodes_values":
                attributes[name] = _floor_to_float32(values)
            elif isinstance(values, list | np.ndarray):
                attributes[name] = np.asarray(values).tolist()
        return self._container.add_node(*positional, **attributes)


def _floor_to_float32(thresholds: Sequence[float]) -> list[float]:
    doubles = np.array(thresholds, np.float64)
    with np.errstate(over="ignore"):  # beyond a float's range: infinite, floored to the greatest float
        nearest = doubles.astype(np.float32)
    below = np.nextafter(nearest, np.float32(-np.inf))
    return [float(value) for value in np.where(nearest > doubles, below, nearest)]


def _convert_lightgbm(scope: Any, operator: Any, container: Any) -> None:
    convert_lightgbm(scope, operator, _Float32Container(container))


def _convert_xgboost(scope: Any, operator: Any, container: Any) -> None:
    operator.raw_operator.get_booster().feature_names = None  # the converter requires f0, f1, …
    convert_xgboost(scope, operator, container)


def _convert_histogram_classifier(scope: Any, operator: Any, container: Any) -> None:
    convert_sklearn_random_forest_classifier(scope, operator, _Float32Container(container))


def _convert_histogram_regressor(scope: Any, operator: Any, container: Any) -> None:
    convert_sklearn_random_forest_regressor_converter(scope, operator, _Float32Container(container))


def _register_converters() -> None:
    classifier_options = {"nocl": [True, False], "zipmap": [True, False, "columns"], "raw_scores": [True, False]}
    converters = [
        (HistGradientBoostingClassifier, "Classifier", _convert_histogram_classifier),
        (HistGradientBoostingRegressor, "Regressor", _convert_histogram_regressor),
        (LGBMClassifier, "Classifier", _convert_lightgbm),
        (LGBMRegressor, "Regressor", _convert_lightgbm),
        (XGBClassifier, "Classifier", _convert_xgboost),
        (XGBRegressor, "Regressor", _convert_xgboost),
    ]
    for estimator, kind, convert in converters:
        is_classifier_kind = kind == "Classifier"
        shapes = (
            calculate_linear_classifier_output_shapes
            if is_classifier_kind
            else calculate_linear_regressor_output_shapes
        )
        options = classifier_options if is_classifier_kind else None
        update_registered_converter(estimator, f"Headrace{estimator.__name__}", shapes, convert, options=options)


_register_converters()
