"""Changelog records as changes of a view's table."""

import logging
from typing import NamedTuple

from headrace.declare.features.view import View
from headrace.kafka.record import ConsumerRecord
from headrace.online_store.feature_lookup import TILE_HEADER
from headrace.tiles.layout import HopLayout, all_layouts
from headrace.tiles.tile import Entity, FeatureTile, decode_key, decode_tile

LOGGER = logging.getLogger("headrace.store")


class TileChange(NamedTuple):
    """A tile of an entity, with the index of its layout in `all_layouts(view)`."""

    entity: Entity
    layout_index: int
    layout: HopLayout
    tile: FeatureTile

    @property
    def event_count(self) -> int:
        """The number of events in the tile: the greater wins."""
        return int(TILE_HEADER.unpack_from(self.tile.row)[1])

    @property
    def start_us(self) -> int:
        return int(TILE_HEADER.unpack_from(self.tile.row)[0])

    @property
    def arrival_us(self) -> int:
        """The append time of the newest event in the tile."""
        return int(TILE_HEADER.unpack_from(self.tile.row)[3])

    @property
    def clamped_time_us(self) -> int:
        """The time of its newest event, at most its arrival: an event far ahead must not expire everything else."""
        _, _, event_time_us, arrival_us = TILE_HEADER.unpack_from(self.tile.row)
        return int(min(event_time_us, arrival_us))


class ChangelogDecoder:
    """Decodes the changelog of one view; invalid records are counted and logged, and never stop it."""

    def __init__(self, view: View) -> None:
        self.view = view
        self.layouts = all_layouts(view)
        self.rejected_count = 0
        self._layout_indexes = {layout.version: index for index, layout in enumerate(self.layouts)}

    def decode(self, record: ConsumerRecord) -> TileChange | None:
        """The change in a record, None for tiles of another layout."""
        try:
            return self._decode(record)
        except (ValueError, KeyError, TypeError, AttributeError) as problem:
            self.rejected_count += 1
            LOGGER.warning("Ignored %s, which is not a tile of %s: %r", record.location, self.view.name, problem)
            return None

    def _decode(self, record: ConsumerRecord) -> TileChange | None:
        key = decode_key(record.key or b"")
        layout_index = self._layout_indexes.get(key.version)
        if layout_index is None or record.value is None:
            return None
        layout = self.layouts[layout_index]
        return TileChange(key.entity, layout_index, layout, decode_tile(layout, key.start_us, record.value))
