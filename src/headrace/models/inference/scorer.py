"""Scorers: vectors in columns or rows go into a model, and one number each comes out.

Numbers are converted to doubles first and then to the model's input type, so that a vector gives the same score on
every path. Null is NaN in a float, "" in a text, 0 in an integer and false in a boolean.
"""

from collections.abc import Mapping, Sequence
from typing import Any, Protocol

import numpy as np
import onnxruntime
from numpy.typing import NDArray

from headrace.aggregates.value_columns import ValueColumn, to_value_column
from headrace.declare.durations import UNITS_US
from headrace.declare.models.model import Model
from headrace.declare.streams.schema import Column, Kind
from headrace.models.inference.input_binding import IncompatibleModelError, ModelBinding, ModelInput, bind_model
from headrace.models.inference.onnx_model import load_inference_session, run_with_timeout
from headrace.models.inference.time_limits import ModelTimeoutError

Scores = NDArray[np.float64]

TRIAL_TIMEOUT_S = 15.0
ONES: dict[Kind, Any] = {Kind.STRING: "a", Kind.BOOLEAN: True, Kind.INTEGER: 1, Kind.DOUBLE: 1.0}
ZEROS: dict[Kind, Any] = {Kind.STRING: "", Kind.BOOLEAN: False, Kind.INTEGER: 0, Kind.DOUBLE: 0.0}


class RowScorer(Protocol):
    """Scores vectors: `columns` are its inputs, in the order of its rows."""

    @property
    def columns(self) -> tuple[Column, ...]: ...

    def score_rows(self, rows: Sequence[Sequence[Any]], timeout_s: float | None = None) -> Scores:
        """The scores of vectors in rows of plain values, None for null."""


class Scorer:
    """A model that has passed its trial; `columns` are its inputs, in the order of its rows.

    With `timeout_s` a model that hangs raises `ModelTimeoutError`, at most some 10 ms after that time.
    """

    def __init__(self, session: onnxruntime.InferenceSession, binding: ModelBinding, where: str) -> None:
        self.binding = binding
        self._session = session
        self._inputs = binding.inputs
        self._where = where

    @property
    def columns(self) -> tuple[Column, ...]:
        return self.binding.columns

    def score(self, columns: Mapping[str, ValueColumn], timeout_s: float | None = None) -> Scores:
        """The scores of vectors in columns."""
        column_values = [columns[column.name] for column in self.columns]
        return self._compute_scores(
            {model_input.name: _build_tensor(model_input, column_values) for model_input in self._inputs},
            len(column_values[0]),
            timeout_s,
        )

    def score_rows(self, rows: Sequence[Sequence[Any]], timeout_s: float | None = None) -> Scores:
        """The scores of vectors in rows of plain values, None for null."""
        first_input = self._inputs[0]
        if len(first_input.column_indexes) == len(self.columns) > 1 and first_input.tensor_type.is_float:
            numbers = np.array(rows, np.float64).reshape(len(rows), len(self.columns))
            return self._compute_scores({first_input.name: _to_input_dtype(numbers, first_input)}, len(rows), timeout_s)
        values_by_column = zip(*rows, strict=True) if rows else ([] for _ in self.columns)
        columns_with_values = zip(self.columns, values_by_column, strict=True)
        return self.score(
            {column.name: to_value_column(list(values), column.kind) for column, values in columns_with_values},
            timeout_s,
        )

    def _compute_scores(self, feeds: dict[str, NDArray[Any]], row_count: int, timeout_s: float | None) -> Scores:
        if row_count == 0:
            return np.empty(0)
        output = self._run(feeds, timeout_s)
        if output.shape not in {(row_count,), (row_count, 1), (row_count, 2)}:
            raise IncompatibleModelError(
                f"{self._where} answers {row_count} rows with the shape {list(output.shape)}. A score is one "
                f"number a row, "
                "or the probabilities of two classes: export it so."
            )
        scores: Scores = (output if output.ndim == 1 else output[:, -1]).astype(np.float64)
        return scores

    def _run(self, feeds: dict[str, NDArray[Any]], timeout_s: float | None) -> Any:
        output = self.binding.output
        if timeout_s is None:
            return self._session.run([output], feeds)[0]
        return run_with_timeout(timeout_s, self._session, output, feeds, self._where)


def load_scorer(model: Model, content: bytes, where: str) -> Scorer:
    """The scorer of a model's file, after binding it and passing a trial."""
    session = load_inference_session(content, where)
    scorer = Scorer(session, bind_model(model, session, where), where)
    timeout_s = max(TRIAL_TIMEOUT_S, model.budget_us / UNITS_US["s"])
    trials = _trial_rows(model, scorer.columns)
    for trial, row in trials.items():
        (score,) = _score_trial(scorer, trial, [row], timeout_s, where)
        _require_number(score, scorer, trial, row, where)
    _score_trial(scorer, "several rows at once", [*trials.values()], timeout_s, where)
    return scorer


def _score_trial(scorer: Scorer, trial: str, rows: list[list[Any]], timeout_s: float, where: str) -> Scores:
    try:
        return scorer.score_rows(rows, timeout_s)
    except ModelTimeoutError:
        raise IncompatibleModelError(
            f"{where} has not answered {trial} within {timeout_s:g} s: it hangs. Export a model that ends."
        ) from None
    except IncompatibleModelError:
        raise
    except Exception as failure:  # noqa: BLE001 - any error of a model prevents serving it
        raise IncompatibleModelError(f"{where} fails on {trial}: {failure}. Export a model that takes it.") from None


def _require_number(score: float, scorer: Scorer, trial: str, row: list[Any], where: str) -> None:
    if not np.isfinite(score):
        raise IncompatibleModelError(
            f"{where} answers {score} to {trial}: {_format_row(scorer.columns, row)}. "
            "Nulls come as NaN: train it on such rows, or put an imputer before it."
        )


def _trial_rows(model: Model, columns: Sequence[Column]) -> dict[str, list[Any]]:
    """Rows that every model must be able to score."""
    never_null_names = {
        item.name for view in model.views for item in view.features if not item.aggregate.result_type.is_nullable
    }
    fields = {*model.fields}
    unseen_entity = [
        ONES[one.kind] if one.name in fields else 0 if one.name in never_null_names else None for one in columns
    ]
    return {
        "a row of ones": [ONES[column.kind] for column in columns],
        "a row of zeros": [ZEROS[column.kind] for column in columns],
        "an entity never seen": unseen_entity,
    }


def _format_row(columns: Sequence[Column], row: Sequence[Any]) -> str:
    return ", ".join(f"{column.name}={value!r}" for column, value in zip(columns, row, strict=True))


def _build_tensor(model_input: ModelInput, column_values: Sequence[ValueColumn]) -> NDArray[Any]:
    """The tensor of an input from its columns."""
    columns = [_fill_nulls(model_input, column_values[index]) for index in model_input.column_indexes]
    tensor: NDArray[Any] = columns[0] if model_input.is_flat else np.stack(columns, axis=1)
    return _to_input_dtype(tensor, model_input)


def _fill_nulls(model_input: ModelInput, values: ValueColumn) -> NDArray[Any]:
    array = values.data.astype(np.float64 if model_input.tensor_type.is_float else model_input.tensor_type.dtype)
    array[~values.valid] = model_input.tensor_type.null_value
    return array


def _to_input_dtype(array: NDArray[Any], model_input: ModelInput) -> NDArray[Any]:
    with np.errstate(over="ignore"):  # values beyond a float's range become infinite
        converted: NDArray[Any] = array.astype(model_input.tensor_type.dtype, copy=False)
    return converted
