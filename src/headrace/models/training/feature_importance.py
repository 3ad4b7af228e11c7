"""The importance of each input, where the estimator provides it."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from sklearn.pipeline import Pipeline

MAX_ROWS = 10_000


def estimator_importance(estimator: Any, frame: pd.DataFrame, names: Sequence[str]) -> dict[str, float] | None:
    """The share of each input: of tree splits, or of |coefficient| times the standard deviation of its column.

    None where the estimator has neither, or where earlier pipeline steps derive other columns.
    """
    last_step = estimator[-1] if isinstance(estimator, Pipeline) else estimator
    raw_importance = _raw_importance(last_step)
    if raw_importance is None or len(raw_importance) != len(names):
        return None
    if not hasattr(last_step, "feature_importances_"):
        raw_importance = np.abs(raw_importance) * _input_stddev(estimator, frame[list(names)].head(MAX_ROWS))
    total = float(raw_importance.sum())
    if not 0 < total < np.inf:
        return None
    return {name: float(value) / total for name, value in zip(names, raw_importance, strict=True)}


def _raw_importance(estimator: Any) -> NDArray[np.float64] | None:
    for name in ("feature_importances_", "coef_"):
        try:
            return np.asarray(getattr(estimator, name), np.float64).reshape(-1)
        except AttributeError:
            continue
    return None


def _input_stddev(estimator: Any, frame: pd.DataFrame) -> NDArray[np.float64]:
    """The standard deviation of the columns that reach the last step."""
    transformed = estimator[:-1].transform(frame) if isinstance(estimator, Pipeline) and len(estimator) > 1 else frame
    stddev: NDArray[np.float64] = np.nanstd(np.asarray(transformed, np.float64), axis=0)
    return stddev
