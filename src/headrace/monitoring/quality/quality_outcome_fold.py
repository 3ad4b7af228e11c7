"""The quality fold: merges the changes of a batch into the stored quality tiles of a model."""

import pyarrow as pa
import pyarrow.compute as pc

from headrace.declare.models.model import Model
from headrace.monitoring.outcomes.outcome_writer import OutcomeFold, OutcomeTile, OutcomeTiles
from headrace.monitoring.outcomes.outcomes import TOO_LATE
from headrace.monitoring.quality.outcome_changes import changes_from_table
from headrace.monitoring.quality.quality_fold import fold_changes
from headrace.monitoring.quality.quality_tile import create_layout, decode_tile, encode_key, encode_tile, merge_tiles


def create_quality_fold(model: Model) -> OutcomeFold:
    """The fold of a model: merges changes into the current tiles."""
    layout = create_layout(model)

    def merge_changes(changes: pa.Table, tiles: OutcomeTiles) -> OutcomeTiles:
        merged_tiles = {}
        for key, added in fold_changes(layout, changes_from_table(_drop_too_late(changes))):
            encoded_key = encode_key(key).decode()
            stored_tiles = [decode_tile(layout, tiles[encoded_key].value.encode())] if encoded_key in tiles else []
            tile = merge_tiles(layout, [*stored_tiles, added])
            merged_tiles[encoded_key] = OutcomeTile(tile.n, key.start_us, encode_tile(tile).decode())
        return merged_tiles

    return merge_changes


def _drop_too_late(changes: pa.Table) -> pa.Table:
    """Treat `too_late` as removed: it is a state of labels, not of quality, so that such an orphan is subtracted."""
    sides = {}
    for side in ("state_before", "state_after"):
        sides[side] = pc.if_else(pc.equal(changes[side], TOO_LATE), None, changes[side])
        changes = changes.set_column(changes.column_names.index(side), side, sides[side])
    return changes.filter(pc.or_(*(pc.is_valid(states) for states in sides.values())))
