"""An event's own tiles, one for each hop, for reading it with the stored tiles as if it were folded already.

stored       [tile][tile]   [tile]
its own                     [tile]──▶ merged at read, as the parts of a view are
"""

from headrace.declare.features.view import View
from headrace.declare.streams.stream import Stream
from headrace.tiles.events.event_parser import Event
from headrace.tiles.fold import fold_into_tiles, to_event_columns
from headrace.tiles.layout import live_layouts, stream_layouts
from headrace.tiles.online.tile_rows import TileRows


class EventTiles:
    """Folds single events of one stream into tiles of a view, by the same kernel as all others."""

    def __init__(self, view: View, stream: Stream) -> None:
        self._view, self._stream = view, stream
        self._layouts, self._stream_layouts = live_layouts(view), stream_layouts(stream, view)
        self._layout_indices = {layout.version: index for index, layout in enumerate(self._layouts)}

    def fold_event(self, event: Event, arrival_us: int) -> list[TileRows | None]:
        """The rows of an event, in the order of `live_layouts(view)`; an event with an incomplete entity has none."""
        rows: list[TileRows | None] = [None] * len(self._layouts)
        for key, tile in fold_into_tiles(
            self._view, to_event_columns(self._view, self._stream, [event], [arrival_us]), self._stream_layouts
        ):
            index = self._layout_indices[key.version]
            tile_rows = rows[index] = TileRows(self._layouts[index])
            tile_rows.apply(tile)
        return rows
