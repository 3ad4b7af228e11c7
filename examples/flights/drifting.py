"""How far the flights of a month are from those a version was trained on, by the vectors it was served."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import orjson
import prepare
import pyarrow as pa

from headrace.declare.model import Model
from headrace.declare.schema import Kind
from headrace.evaluate.drift.examine import examine
from headrace.evaluate.drift.fold import fold
from headrace.evaluate.drift.layout import WHOLE, Layout, layout_of
from headrace.evaluate.drift.ranking import SCORE, Drifted, importance_of, ranked
from headrace.evaluate.drift.tile import merged
from headrace.score.card import Card
from headrace.tiles.columns import Values, values_of


def drift(model: Model, card: Card, predictions: pa.Table) -> list[Drifted]:
    """What of the vectors and scores of some predictions is not like a version's training set, the heaviest first."""
    layout = layout_of(card)
    left_us = prepare.us(predictions["event_time"])
    # Tiles of a day: those of a minute would be one a flight.
    tiles = fold(layout, columns_of(model, layout, predictions), left_us - left_us % prepare.DAY_US)
    whole = merged(layout, [tile for (segment, _), tile in tiles.items() if segment == WHOLE])
    return ranked({WHOLE: examine(layout, layout.reference, whole.counts)}, importance_of(card))


def columns_of(model: Model, layout: Layout, predictions: pa.Table) -> Mapping[str, Values]:
    """The columns that a card has, and those of segments, from predictions as the lake has them."""
    vectors = [orjson.loads(features) for features in predictions["features"].to_pylist()]
    found = {SCORE: values_of(predictions["score"].to_pylist(), Kind.DOUBLE)}
    for name in {*layout.names, *model.segments} - {SCORE}:
        found[name] = _values(model.known.column(name, model.name).kind, [vector[name] for vector in vectors])
    return found


def _values(kind: Kind, written: Sequence[Any]) -> Values:
    """Numbers as a model reads them: as doubles."""
    if kind is Kind.STRING:
        return values_of(written, kind)
    there = np.array([value is not None for value in written])
    return Values(np.array([float(value or 0) for value in written]), there)
