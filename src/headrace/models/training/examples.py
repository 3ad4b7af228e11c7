"""Training examples: the labelled rows of a training set as a model gets them, and their split by time.

time ──────────────────────────────────────────────▶
     ├──── train ────┤ embargo ├──────── test ───────┤
                     │ labels of these rows arrived after the start of the test
"""

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
from numpy.typing import NDArray

from headrace.declare.models.model import Model
from headrace.declare.streams.schema import Column, Kind
from headrace.errors import HeadraceError
from headrace.lake.training.arrow_features import from_arrow

RowMask = NDArray[np.bool_]

MIN_EXAMPLES = 10


class InvalidExamplesError(HeadraceError):
    """Rows that no model can be trained on."""


@dataclass(frozen=True)
class TrainingExamples:
    """Labelled rows in order of time: a frame of the vector and the label, and the number of rows without a label.

    The segment columns are separate: they need not be inputs, and then `fit` must not see them.
    """

    frame: pd.DataFrame
    times_us: NDArray[np.int64]
    unlabelled: int
    segments: Mapping[str, NDArray[Any]] = field(default_factory=dict)

    @property
    def data_sha256(self) -> str:
        """A hash of the rows that does not depend on their order."""
        row_hashes = _row_hashes(self.frame) ^ self.times_us.view(np.uint64)
        return hashlib.sha256(np.sort(row_hashes).tobytes()).hexdigest()


def build_examples(model: Model, table: pa.Table, time_column: str) -> TrainingExamples:
    """The rows of a training set that have a label and a time.

    Numbers and booleans are floats with NaN for null, as in scoring; texts have "" for it.
    """
    for name in (*model.fields, model.label, time_column):
        if name not in table.column_names:
            raise InvalidExamplesError(
                f"Model {model.name!r}: the spine has no column {name!r}. It has {', '.join(table.column_names)}. "
                "Add or rename it."
            )
    frame = pd.DataFrame({column.name: _to_model_column(table, column) for column in model.vector})
    label = _label_values(table, model)
    times_us = from_arrow(_combine_chunks(table[time_column]).cast(pa.timestamp("us", "UTC")), Kind.TIMESTAMP)
    is_labelled = np.isfinite(label) & times_us.valid
    frame, labelled_times_us = frame[is_labelled], times_us.data[is_labelled]
    frame[model.label] = _to_label_type(label[is_labelled])
    order = np.lexsort((_row_hashes(frame), labelled_times_us))
    segment_columns = {name: _to_model_column(table, model.known.column(name, model.name)) for name in model.segments}
    segments = {name: values[is_labelled][order] for name, values in segment_columns.items()}
    return TrainingExamples(
        frame.iloc[order].reset_index(drop=True), labelled_times_us[order], int((~is_labelled).sum()), segments
    )


@dataclass(frozen=True)
class TrainTestSplit:
    """The rows to fit on and those to test on; the rest is under the embargo."""

    train: RowMask
    test: RowMask


def split_by_time(times_us: NDArray[np.int64], test_share: float, embargo_us: int = 0) -> TrainTestSplit:
    """Tests on the last rows by time; fits on no row whose label could be known only after the test's start."""
    if len(times_us) < MIN_EXAMPLES:
        raise InvalidExamplesError(
            f"{len(times_us)} labelled rows are too few to train on. Give a spine of {MIN_EXAMPLES} or more."
        )
    sorted_times_us = np.sort(times_us)
    cut_us = sorted_times_us[min(int(len(sorted_times_us) * (1 - test_share)), len(sorted_times_us) - 1)]
    split = TrainTestSplit(train=times_us < cut_us - embargo_us, test=times_us >= cut_us)
    if not split.train.any():
        raise InvalidExamplesError(
            f"No row is left to fit on before {format_time(cut_us)}, less the {embargo_us / 1_000_000:g} s in "
            f"which labels "
            "come in. Give a spine that reaches further back, or a smaller --test."
        )
    return split


def _to_model_column(table: pa.Table, column: Column) -> NDArray[Any]:
    values = from_arrow(_cast_text(table, column), column.kind)
    if column.kind is Kind.STRING:
        return values.data.astype(object)
    with np.errstate(over="ignore"):
        numbers = values.data.astype(np.float64).astype(np.float32)
    numbers[~values.valid] = np.nan
    return numbers


def _cast_text(table: pa.Table, column: Column) -> pa.Array:
    array = _combine_chunks(table[column.name])
    if column.kind is not Kind.STRING:
        return array
    try:
        return array.cast(pa.string())
    except pa.ArrowException as failure:
        raise InvalidExamplesError(f"The spine's {column.name!r} is {array.type}, not text: {failure}.") from failure


def _label_values(table: pa.Table, model: Model) -> NDArray[np.float64]:
    array = _combine_chunks(table[model.label])
    try:
        values = from_arrow(array.cast(pa.int8()) if pa.types.is_boolean(array.type) else array, Kind.DOUBLE)
    except pa.ArrowException as failure:
        raise InvalidExamplesError(
            f"Model {model.name!r}: the label {model.label!r} is {array.type}. A label is a boolean or a number."
        ) from failure
    return np.where(values.valid, values.data, np.nan)


def _to_label_type(label: NDArray[np.float64]) -> NDArray[Any]:
    """Labels as integers if they are: classifiers need that."""
    integer_label = label.astype(np.int64)
    return integer_label if bool((integer_label == label).all()) else label


def _row_hashes(frame: pd.DataFrame) -> NDArray[np.uint64]:
    return np.asarray(pd.util.hash_pandas_object(frame, index=False).to_numpy(), np.uint64)


def _combine_chunks(column: pa.ChunkedArray) -> pa.Array:
    return column.combine_chunks()


def format_time(time_us: int) -> str:
    """A time as text."""
    return f"{np.datetime64(int(time_us), 'us')}Z"
