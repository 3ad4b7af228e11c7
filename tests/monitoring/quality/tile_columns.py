"""Columns of quality tiles, for tests with many predictions at once."""

from collections.abc import Sequence

import numpy as np
import pyarrow as pa

import headrace as hr
from headrace.monitoring.quality.outcome_changes import changes_from_table
from headrace.monitoring.quality.quality_fold import fold_changes
from headrace.monitoring.quality.quality_tile import QualityTile, create_layout, merge_tiles


def table_of(scores: Sequence[float] | np.ndarray, labels: Sequence[float] | np.ndarray | None) -> pa.Table:
    """One change for each score: matched with its label, or pending where there are none."""
    size = len(scores)
    none, states = pa.nulls(size, pa.string()), ["pending" if labels is None else "matched"] * size
    return pa.table(
        {
            "version": pa.array(["1"] * size, pa.string()),
            "role": pa.array(["champion"] * size, pa.string()),
            "segment": none,
            "minute_us": np.zeros(size, dtype=np.int64),
            "score": np.asarray(scores, dtype=np.float64),
            "state_before": none,
            "label_before": pa.nulls(size, pa.float64()),
            "state_after": pa.array(states, pa.string()),
            "label_after": pa.nulls(size, pa.float64()) if labels is None else np.asarray(labels),
            "label_delay_us": np.full(size, 5_000_000),
        }
    )


def tile_of(
    model: hr.Model, scores: Sequence[float] | np.ndarray, labels: Sequence[float] | np.ndarray | None
) -> QualityTile:
    """The one tile of these predictions."""
    layout = create_layout(model)
    return merge_tiles(layout, (tile for _, tile in fold_changes(layout, changes_from_table(table_of(scores, labels)))))
