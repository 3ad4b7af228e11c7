"""Drift of a month's flights from a version's training set, by the feature vectors that it was served."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import orjson
import prepare
import pyarrow as pa

from headrace.aggregates.value_columns import ValueColumn, to_value_column
from headrace.declare.models.model import Model
from headrace.declare.streams.schema import Kind
from headrace.models.versions.model_card import ModelCard
from headrace.monitoring.drift.drift_fold import fold_rows
from headrace.monitoring.drift.drift_layout import ALL_ROWS, DriftLayout, create_layout
from headrace.monitoring.drift.drift_tests import run_drift_tests
from headrace.monitoring.drift.drift_tile import merge_tiles
from headrace.monitoring.drift.ranking import SCORE_COLUMN, DriftedColumn, feature_importance, rank_drifted


def drift(model: Model, card: ModelCard, predictions: pa.Table) -> list[DriftedColumn]:
    """The inputs and scores that have drifted from a version's training set, the most important first."""
    layout = create_layout(card)
    left_us = prepare.us(predictions["event_time"])
    # Tiles of a day: with tiles of a minute there would be one per flight.
    tiles = fold_rows(layout, columns_of(model, layout, predictions), left_us - left_us % prepare.DAY_US)
    whole = merge_tiles(layout, [tile for (segment, _), tile in tiles.items() if segment == ALL_ROWS])
    return rank_drifted({ALL_ROWS: run_drift_tests(layout, layout.reference, whole.counts)}, feature_importance(card))


def columns_of(model: Model, layout: DriftLayout, predictions: pa.Table) -> Mapping[str, ValueColumn]:
    """The columns of a model card and of segments, from the predictions in the lake."""
    vectors = [orjson.loads(features) for features in predictions["features"].to_pylist()]
    found = {SCORE_COLUMN: to_value_column(predictions["score"].to_pylist(), Kind.DOUBLE)}
    for name in {*layout.names, *model.segments} - {SCORE_COLUMN}:
        found[name] = _values(model.known.column(name, model.name).kind, [vector[name] for vector in vectors])
    return found


def _values(kind: Kind, written: Sequence[Any]) -> ValueColumn:
    """Convert values to a column; numbers become doubles, as the model reads them."""
    if kind is Kind.STRING:
        return to_value_column(written, kind)
    there = np.array([value is not None for value in written])
    return ValueColumn(np.array([float(value or 0) for value in written]), there)
