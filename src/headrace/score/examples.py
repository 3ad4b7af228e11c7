"""Examples: the labelled rows of a training set as a model sees them, and the split of them by time.

time ──────────────────────────────────────────────▶
     ├──── train ────┤ embargo ├──────── test ───────┤
                     │ labels of these rows came in after the test began
"""

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
from numpy.typing import NDArray

from headrace.declare.model import Model
from headrace.declare.schema import Column, Kind
from headrace.errors import HeadraceError
from headrace.lake.arrow import as_values

Rows = NDArray[np.bool_]

FEWEST = 10


class UnfitExamples(HeadraceError):
    """Rows no model can be trained on."""


@dataclass(frozen=True)
class Examples:
    """Labelled rows in the order of their times: a frame of the vector and the label, and how many had no label.

    The columns of segments stand apart: they need not be inputs, and then `fit` must not see them.
    """

    frame: pd.DataFrame
    times_us: NDArray[np.int64]
    unlabelled: int
    segments: Mapping[str, NDArray[Any]] = field(default_factory=dict)

    @property
    def data_sha256(self) -> str:
        """A hash of the rows, whatever order they came in."""
        hashed = _row_hashes(self.frame) ^ self.times_us.view(np.uint64)
        return hashlib.sha256(np.sort(hashed).tobytes()).hexdigest()


def examples_of(model: Model, table: pa.Table, time: str) -> Examples:
    """The rows of a training set that have a label and a time.

    Numbers and booleans are floats with NaN for null, as a model gets them when it scores; texts have "" for it.
    """
    for name in (*model.fields, model.label, time):
        if name not in table.column_names:
            raise UnfitExamples(
                f"Model {model.name!r}: the spine has no column {name!r}. It has {', '.join(table.column_names)}. "
                "Add or rename it."
            )
    frame = pd.DataFrame({column.name: _column(table, column) for column in model.vector})
    label = _label(table, model)
    times_us = as_values(_whole(table[time]).cast(pa.timestamp("us", "UTC")), Kind.TIMESTAMP)
    labelled = np.isfinite(label) & times_us.valid
    frame, moments = frame[labelled], times_us.data[labelled]
    frame[model.label] = _typed(label[labelled])
    order = np.lexsort((_row_hashes(frame), moments))
    apart = {name: _column(table, model.known.column(name, model.name)) for name in model.segments}
    segments = {name: values[labelled][order] for name, values in apart.items()}
    return Examples(frame.iloc[order].reset_index(drop=True), moments[order], int((~labelled).sum()), segments)


@dataclass(frozen=True)
class Split:
    """Which rows are fitted on, which are tested on; the rest is under the embargo."""

    train: Rows
    test: Rows


def split_by_time(times_us: NDArray[np.int64], test_share: float, embargo_us: int = 0) -> Split:
    """The last rows by time are the test; no row is fitted on whose label could be known only after it began."""
    if len(times_us) < FEWEST:
        raise UnfitExamples(f"{len(times_us)} labelled rows are too few to train on. Give a spine of {FEWEST} or more.")
    in_order = np.sort(times_us)
    cut_us = in_order[min(int(len(in_order) * (1 - test_share)), len(in_order) - 1)]
    split = Split(train=times_us < cut_us - embargo_us, test=times_us >= cut_us)
    if not split.train.any():
        raise UnfitExamples(
            f"No row is left to fit on before {moment(cut_us)}, less the {embargo_us / 1_000_000:g} s in which labels "
            "come in. Give a spine that reaches further back, or a smaller --test."
        )
    return split


def _column(table: pa.Table, column: Column) -> NDArray[Any]:
    values = as_values(_cast(table, column), column.kind)
    if column.kind is Kind.STRING:
        return values.data.astype(object)
    with np.errstate(over="ignore"):
        found = values.data.astype(np.float64).astype(np.float32)
    found[~values.valid] = np.nan
    return found


def _cast(table: pa.Table, column: Column) -> pa.Array:
    found = _whole(table[column.name])
    if column.kind is not Kind.STRING:
        return found
    try:
        return found.cast(pa.string())
    except pa.ArrowException as failure:
        raise UnfitExamples(f"The spine's {column.name!r} is {found.type}, not text: {failure}.") from failure


def _label(table: pa.Table, model: Model) -> NDArray[np.float64]:
    found = _whole(table[model.label])
    try:
        values = as_values(found.cast(pa.int8()) if pa.types.is_boolean(found.type) else found, Kind.DOUBLE)
    except pa.ArrowException as failure:
        raise UnfitExamples(
            f"Model {model.name!r}: the label {model.label!r} is {found.type}. A label is a boolean or a number."
        ) from failure
    return np.where(values.valid, values.data, np.nan)


def _typed(label: NDArray[np.float64]) -> NDArray[Any]:
    """Labels as whole numbers where they are: classifiers want them so."""
    whole = label.astype(np.int64)
    return whole if bool((whole == label).all()) else label


def _row_hashes(frame: pd.DataFrame) -> NDArray[np.uint64]:
    return np.asarray(pd.util.hash_pandas_object(frame, index=False).to_numpy(), np.uint64)


def _whole(column: pa.ChunkedArray) -> pa.Array:
    return column.combine_chunks()


def moment(time_us: int) -> str:
    """A time in text."""
    return f"{np.datetime64(int(time_us), 'us')}Z"
