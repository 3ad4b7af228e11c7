"""Changelog records as entries of a shared store: what one batch changes of one entity."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from functools import cached_property
from typing import Self

from headrace.declare.views import View
from headrace.log.records import Record
from headrace.store.changelog import Change, Changelog
from headrace.store.packing import field_of, hash_key, pack, pack_keeps
from headrace.store.reads import EXPIRY_GRACE_US, slack_of
from headrace.store.rows import Row, sort_key
from headrace.tiles.layout import HopLayout, parts_of
from headrace.tiles.tile import Entity


@dataclass(frozen=True)
class Lifetimes:
    """How long tiles of a view's layouts are kept."""

    layouts: tuple[HopLayout, ...]
    slack_us: int

    @cached_property
    def packed(self) -> bytes:
        """How long tiles of each layout are kept, as the script in Redis reads it."""
        return pack_keeps(self.layouts, self.slack_us)

    @cached_property
    def longest_ms(self) -> int:
        """How long an entity lives without a change; 0 is for ever."""
        if any(layout.is_kept_forever for layout in self.layouts):
            return 0
        return (max(layout.keep_us for layout in self.layouts) + self.slack_us + EXPIRY_GRACE_US) // 1000

    def keep_us(self, layout: HopLayout) -> int:
        """How long a tile of a layout is needed after its start; 0 is for ever."""
        return 0 if layout.is_kept_forever else layout.keep_us + self.slack_us


@dataclass
class Entry:
    """All changes of one entity in one batch of records; of each tile the one with most events."""

    key: bytes
    lifetimes: Lifetimes
    time_us: int = 0
    changes: dict[bytes, Change] = field(default_factory=dict)

    def add(self, change: Change) -> Self:
        self.time_us = max(self.time_us, change.time_us)
        name = field_of(change.layout, change.start_us)
        held = self.changes.get(name)
        if held is None or change.n > held.n:
            self.changes[name] = change
        return self

    def fields(self) -> Iterator[tuple[bytes, bytes]]:
        """Name and value of each tile."""
        return ((name, pack(change.layout, change.tile)) for name, change in self.changes.items())

    def rows(self) -> Iterator[Row]:
        """Its tiles one by one, but for those that no window holds any more."""
        for change in self.changes.values():
            layout, start_us = change.layout, change.start_us
            keep_us = self.lifetimes.keep_us(layout)
            if not keep_us or start_us > self.time_us - keep_us:
                place = sort_key(layout.hop_us, start_us, bytes.fromhex(layout.version))
                expires_s = keep_us and -(-(keep_us + EXPIRY_GRACE_US) // 1_000_000)
                yield Row(self.key, place, start_us, change.n, pack(layout, change.tile), expires_s)


class Entries:
    """Turns changelog records of one view into entries."""

    def __init__(self, view: View) -> None:
        self._name = view.name
        self._changelog = Changelog(view)
        self._lifetimes = Lifetimes(tuple(parts_of(view)), slack_of(view))

    def of(self, records: Iterable[Record]) -> Iterable[Entry]:
        entries: dict[Entity, Entry] = {}
        for record in records:
            change = self._changelog.change(record)
            if change is not None:
                self._entry(entries, change.entity).add(change)
        return entries.values()

    def _entry(self, entries: dict[Entity, Entry], entity: Entity) -> Entry:
        if entity not in entries:
            entries[entity] = Entry(hash_key(self._name, entity), self._lifetimes)
        return entries[entity]
