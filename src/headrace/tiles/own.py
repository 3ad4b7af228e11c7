"""An event's own tiles: one of each hop, so that it can be read with what is stored as if it had been folded already.

stored       [tile][tile]   [tile]
its own                     [tile]──▶ merged at read, as the parts of a view are
"""

from headrace.declare.stream import Stream
from headrace.declare.views import View
from headrace.tiles.events import Event
from headrace.tiles.fold import events_of, fold
from headrace.tiles.layout import fed_by, lives_of
from headrace.tiles.rows import TileRows


class OwnTiles:
    """Folds single events of one stream into tiles of a view, by the kernel that folds all others."""

    def __init__(self, view: View, stream: Stream) -> None:
        self._view, self._stream = view, stream
        self._layouts, self._fed = lives_of(view), fed_by(stream, view)
        self._places = {layout.version: place for place, layout in enumerate(self._layouts)}

    def rows(self, event: Event, arrival_us: int) -> list[TileRows | None]:
        """The rows of an event, in the order of `lives_of(view)`; an event without its whole entity has none."""
        rows: list[TileRows | None] = [None] * len(self._layouts)
        for key, tile in fold(self._view, events_of(self._view, self._stream, [event], [arrival_us]), self._fed):
            place = self._places[key.version]
            own = rows[place] = TileRows(self._layouts[place])
            own.apply(tile)
        return rows
