"""Changelog records as changes of a view's table."""

import logging
from typing import NamedTuple

from headrace.declare.views import View
from headrace.log.records import Record
from headrace.store.reads import HEAD
from headrace.tiles.layout import HopLayout, parts_of
from headrace.tiles.tile import Entity, Tile, decode_key, decode_tile

LOGGER = logging.getLogger("headrace.store")


class Change(NamedTuple):
    """A tile of an entity, in the place its layout has in `parts_of(view)`."""

    entity: Entity
    place: int
    layout: HopLayout
    tile: Tile

    @property
    def n(self) -> int:
        """How many events are in the tile: the greater wins."""
        return int(HEAD.unpack_from(self.tile.row)[1])

    @property
    def start_us(self) -> int:
        return int(HEAD.unpack_from(self.tile.row)[0])

    @property
    def arrival_us(self) -> int:
        """When the log took the newest event of the tile."""
        return int(HEAD.unpack_from(self.tile.row)[3])

    @property
    def time_us(self) -> int:
        """Its newest event's time, or its arrival if that is earlier: a date far ahead must not make all else old."""
        _, _, event_time_us, arrival_us = HEAD.unpack_from(self.tile.row)
        return int(min(event_time_us, arrival_us))


class Changelog:
    """Decodes the changelog of one view; what is no tile at all is counted and told, never a reason to stop."""

    def __init__(self, view: View) -> None:
        self.view = view
        self.layouts = parts_of(view)
        self.refused = 0
        self._places = {layout.version: place for place, layout in enumerate(self.layouts)}

    def change(self, record: Record) -> Change | None:
        """The change a record makes, None for tiles of another layout."""
        try:
            return self._change(record)
        except (ValueError, KeyError, TypeError, AttributeError) as problem:
            self.refused += 1
            LOGGER.warning("%s is not a tile of %s: %r", record.place, self.view.name, problem)
            return None

    def _change(self, record: Record) -> Change | None:
        key = decode_key(record.key or b"")
        place = self._places.get(key.version)
        if place is None or record.value is None:
            return None
        layout = self.layouts[place]
        return Change(key.entity, place, layout, decode_tile(layout, key.start_us, record.value))
