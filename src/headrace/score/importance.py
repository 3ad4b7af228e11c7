"""How much each input matters to an estimator, as far as it says so itself."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from sklearn.pipeline import Pipeline

ROWS = 10_000


def importance_of(estimator: Any, frame: pd.DataFrame, names: Sequence[str]) -> dict[str, float] | None:
    """The share of each input: of the splits of trees, or of |coefficient| times the spread of what it multiplies.

    None where the estimator has neither, or where steps before it make other columns of the inputs.
    """
    last = estimator[-1] if isinstance(estimator, Pipeline) else estimator
    given = _given(last)
    if given is None or len(given) != len(names):
        return None
    if not hasattr(last, "feature_importances_"):
        given = np.abs(given) * _spread(estimator, frame[list(names)].head(ROWS))
    total = float(given.sum())
    if not 0 < total < np.inf:
        return None
    return {name: float(value) / total for name, value in zip(names, given, strict=True)}


def _given(estimator: Any) -> NDArray[np.float64] | None:
    for name in ("feature_importances_", "coef_"):
        try:
            return np.asarray(getattr(estimator, name), np.float64).reshape(-1)
        except AttributeError:
            continue
    return None


def _spread(estimator: Any, frame: pd.DataFrame) -> NDArray[np.float64]:
    """The standard deviation of the columns that reach the last step."""
    reached = estimator[:-1].transform(frame) if isinstance(estimator, Pipeline) and len(estimator) > 1 else frame
    spread: NDArray[np.float64] = np.nanstd(np.asarray(reached, np.float64), axis=0)
    return spread
