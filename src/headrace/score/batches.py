"""Scores of Arrow batches: what Spark's workers run, and what anybody can run without Spark."""

from collections.abc import Callable, Iterator

import numpy as np
import pyarrow as pa

from headrace.declare.model import Model
from headrace.declare.schema import Column, Kind
from headrace.lake.arrow import as_values
from headrace.score.champions import LoadedFile
from headrace.score.network import load_network
from headrace.score.scorer import Scorer
from headrace.tiles.columns import Values

Batches = Iterator[pa.RecordBatch]
ADDED = (("score", pa.float64()), ("decision", pa.string()), ("model_version", pa.string()))


def batch_scorer(model: Model, loaded: LoadedFile) -> Callable[[Batches], Batches]:
    """A function that adds score, decision and version to each batch; it carries the model along to where it runs."""
    content, bound, where = loaded.content, loaded.scorer.bound, f"Model {model.name!r} version {loaded.version}"
    version, thresholds = loaded.version, model.thresholds

    def score(batches: Batches) -> Batches:
        scorer = Scorer(load_network(content, where), bound, where)
        for batch in batches:
            yield _with_scores(batch, scorer, thresholds, version)

    return score


def columns_of(batch: pa.RecordBatch, columns: tuple[Column, ...]) -> dict[str, Values]:
    """The columns of a vector in a batch."""
    return {column.name: _values(batch.column(column.name), column.kind) for column in columns}


def _values(found: pa.Array, kind: Kind) -> Values:
    return as_values(found.cast(pa.bool_()) if kind is Kind.BOOLEAN else found, kind)


def _with_scores(
    batch: pa.RecordBatch, scorer: Scorer, thresholds: tuple[tuple[str, float], ...], version: str
) -> pa.RecordBatch:
    scores = scorer.score(columns_of(batch, scorer.columns))
    names = np.array([None, *(name for name, _ in thresholds)], object)
    reached = np.searchsorted([least for _, least in thresholds], scores, side="right")
    decisions = names[np.where(np.isnan(scores), 0, reached)]
    added = [scores, decisions, np.full(len(scores), version, object)]
    arrays = [pa.array(values, kind) for values, (_, kind) in zip(added, ADDED, strict=True)]
    names_of_all = [*batch.schema.names, *(name for name, _ in ADDED)]
    return pa.RecordBatch.from_arrays([*batch.columns, *arrays], names_of_all)
