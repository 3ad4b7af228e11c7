"""Changes folded into the tiles of a model's quality."""

import pyarrow as pa
import pyarrow.compute as pc

from headrace.declare.model import Model
from headrace.evaluate.book import Fold, Tile, Tiles
from headrace.evaluate.outcomes import TOO_LATE
from headrace.evaluate.quality.changes import changes_of
from headrace.evaluate.quality.fold import fold
from headrace.evaluate.quality.tile import decode_tile, encode_key, encode_tile, layout_of, merge


def quality_fold(model: Model) -> Fold:
    """The fold of a model: what changes add is merged into the tiles there are."""
    layout = layout_of(model)

    def folded(changes: pa.Table, tiles: Tiles) -> Tiles:
        found = {}
        for key, added in fold(layout, changes_of(_without_too_late(changes))):
            text = encode_key(key).decode()
            known = [decode_tile(layout, tiles[text].value.encode())] if text in tiles else []
            tile = merge(layout, [*known, added])
            found[text] = Tile(tile.n, key.start_us, encode_tile(tile).decode())
        return found

    return folded


def _without_too_late(changes: pa.Table) -> pa.Table:
    """Too late is a fate of labels and no state of quality: an orphan that turns out to be it is taken out."""
    sides = {}
    for side in ("state_before", "state_after"):
        sides[side] = pc.if_else(pc.equal(changes[side], TOO_LATE), None, changes[side])
        changes = changes.set_column(changes.column_names.index(side), side, sides[side])
    return changes.filter(pc.or_(*(pc.is_valid(said) for said in sides.values())))
