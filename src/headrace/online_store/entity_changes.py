"""Changelog records as writes to a shared store: the changes of one entity in one batch."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from functools import cached_property
from typing import Self

from headrace.declare.features.view import View
from headrace.kafka.record import ConsumerRecord
from headrace.online_store.changelog import ChangelogDecoder, TileChange
from headrace.online_store.feature_lookup import EXPIRY_GRACE_US, retention_slack_us
from headrace.online_store.sorted_rows import SortedTileRow, sort_key
from headrace.online_store.tile_packing import hash_key, pack_lifetimes, pack_tile, tile_field
from headrace.tiles.layout import HopLayout, all_layouts
from headrace.tiles.tile import Entity


@dataclass(frozen=True)
class TileLifetimes:
    """How long the tiles of a view's layouts are retained."""

    layouts: tuple[HopLayout, ...]
    slack_us: int

    @cached_property
    def packed_lifetimes(self) -> bytes:
        """The retention of each layout, in the format of the Redis script."""
        return pack_lifetimes(self.layouts, self.slack_us)

    @cached_property
    def entity_ttl_ms(self) -> int:
        """How long an entity lives without a change; 0 is forever."""
        if any(layout.is_kept_forever for layout in self.layouts):
            return 0
        return (max(layout.retention_us for layout in self.layouts) + self.slack_us + EXPIRY_GRACE_US) // 1000

    def ttl_us(self, layout: HopLayout) -> int:
        """How long a tile of a layout is needed after its start; 0 is forever."""
        return 0 if layout.is_kept_forever else layout.retention_us + self.slack_us


@dataclass
class EntityChanges:
    """All changes of one entity in one batch of records; for each tile the one with the most events."""

    key: bytes
    lifetimes: TileLifetimes
    newest_time_us: int = 0
    changes: dict[bytes, TileChange] = field(default_factory=dict)

    def add(self, change: TileChange) -> Self:
        self.newest_time_us = max(self.newest_time_us, change.clamped_time_us)
        field_name = tile_field(change.layout, change.start_us)
        current = self.changes.get(field_name)
        if current is None or change.event_count > current.event_count:
            self.changes[field_name] = change
        return self

    def tile_fields(self) -> Iterator[tuple[bytes, bytes]]:
        """The field name and value of each tile."""
        return ((field_name, pack_tile(change.layout, change.tile)) for field_name, change in self.changes.items())

    def sorted_rows(self) -> Iterator[SortedTileRow]:
        """Its tiles as single rows, except those that are in no window any more."""
        for change in self.changes.values():
            layout, start_us = change.layout, change.start_us
            ttl_us = self.lifetimes.ttl_us(layout)
            if not ttl_us or start_us > self.newest_time_us - ttl_us:
                row_key = sort_key(layout.hop_us, start_us, bytes.fromhex(layout.version))
                ttl_s = ttl_us and -(-(ttl_us + EXPIRY_GRACE_US) // 1_000_000)
                yield SortedTileRow(
                    self.key, row_key, start_us, change.event_count, pack_tile(layout, change.tile), ttl_s
                )


class EntityChangesBuilder:
    """Converts changelog records of one view to entity changes."""

    def __init__(self, view: View) -> None:
        self._view_name = view.name
        self._decoder = ChangelogDecoder(view)
        self._lifetimes = TileLifetimes(tuple(all_layouts(view)), retention_slack_us(view))

    def build(self, records: Iterable[ConsumerRecord]) -> Iterable[EntityChanges]:
        changes_by_entity: dict[Entity, EntityChanges] = {}
        for record in records:
            change = self._decoder.decode(record)
            if change is not None:
                self._get_or_create(changes_by_entity, change.entity).add(change)
        return changes_by_entity.values()

    def _get_or_create(self, changes_by_entity: dict[Entity, EntityChanges], entity: Entity) -> EntityChanges:
        if entity not in changes_by_entity:
            changes_by_entity[entity] = EntityChanges(hash_key(self._view_name, entity), self._lifetimes)
        return changes_by_entity[entity]
