"""Scores Arrow batches: on Spark's workers, or anywhere without Spark."""

from collections.abc import Callable, Iterator

import numpy as np
import pyarrow as pa

from headrace.aggregates.value_columns import ValueColumn
from headrace.declare.models.model import Model
from headrace.declare.streams.schema import Column, Kind
from headrace.lake.training.arrow_features import from_arrow
from headrace.models.inference.onnx_model import load_inference_session
from headrace.models.inference.scorer import Scorer
from headrace.models.versions.version_loader import LoadedOnnxVersion

Batches = Iterator[pa.RecordBatch]
ADDED_COLUMNS = (("score", pa.float64()), ("decision", pa.string()), ("model_version", pa.string()))


def batch_scorer(model: Model, loaded: LoadedOnnxVersion) -> Callable[[Batches], Batches]:
    """A function that adds score, decision and version to each batch; it is serialized together with the model."""
    content, binding, where = loaded.content, loaded.scorer.binding, f"Model {model.name!r} version {loaded.version}"
    version, thresholds = loaded.version, model.thresholds

    def score_batches(batches: Batches) -> Batches:
        scorer = Scorer(load_inference_session(content, where), binding, where)
        for batch in batches:
            yield _add_scores(batch, scorer, thresholds, version)

    return score_batches


def read_columns(batch: pa.RecordBatch, columns: tuple[Column, ...]) -> dict[str, ValueColumn]:
    """The columns of a vector in a batch."""
    return {column.name: _to_values(batch.column(column.name), column.kind) for column in columns}


def _to_values(array: pa.Array, kind: Kind) -> ValueColumn:
    return from_arrow(array.cast(pa.bool_()) if kind is Kind.BOOLEAN else array, kind)


def _add_scores(
    batch: pa.RecordBatch, scorer: Scorer, thresholds: tuple[tuple[str, float], ...], version: str
) -> pa.RecordBatch:
    scores = scorer.score(read_columns(batch, scorer.columns))
    decision_names = np.array([None, *(name for name, _ in thresholds)], object)
    decision_index = np.searchsorted([threshold for _, threshold in thresholds], scores, side="right")
    decisions = decision_names[np.where(np.isnan(scores), 0, decision_index)]
    added_values = [scores, decisions, np.full(len(scores), version, object)]
    arrays = [pa.array(values, kind) for values, (_, kind) in zip(added_values, ADDED_COLUMNS, strict=True)]
    column_names = [*batch.schema.names, *(name for name, _ in ADDED_COLUMNS)]
    return pa.RecordBatch.from_arrays([*batch.columns, *arrays], column_names)
