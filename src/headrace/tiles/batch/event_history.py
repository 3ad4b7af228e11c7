"""The events of many entities as columns, indexed for the windows of a view; and the requested pairs."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from headrace.aggregates.partial import AggregateSlot
from headrace.aggregates.value_columns import ValueColumn
from headrace.tiles.batch.sorted_times import Ints, order_by_group_and_time


@dataclass(frozen=True)
class EntityTimePairs:
    """Entities by number, and the times of their features; reading is fastest if sorted by both.

    An event counts if it was known by that time; `known_by_us` has other times for that, by hop and stream number.
    """

    entities: Ints
    at_us: Ints
    known_by_us: Mapping[tuple[int, int], Ints] = field(default_factory=dict)

    def __len__(self) -> int:
        return len(self.entities)

    def __getitem__(self, rows: Ints) -> "EntityTimePairs":
        known_by_us = {hop_stream: times_us[rows] for hop_stream, times_us in self.known_by_us.items()}
        return EntityTimePairs(self.entities[rows], self.at_us[rows], known_by_us)

    def known_by(self, hop_us: int, stream: int) -> Ints:
        """The times by which events must be known, for one hop and stream."""
        return self.known_by_us.get((hop_us, stream), self.at_us)


@dataclass(frozen=True)
class EventHistory:
    """Deduplicated events of entities by number; with several streams, each has tiles of its own, as online.

    Each stream of an entity is a group: entity 7 of 3 streams has the groups 21, 22 and 23. A slot's column is valid
    where an event counts, and has the values to fold: numbers unchanged, for text the rank among all texts, for `first`
    and `last` the event's index in the order of time, id and stream, for `distinct` its coupon.
    """

    group_ids: Ints
    times_us: Ints
    known_us: Ints
    columns: Mapping[AggregateSlot, ValueColumn]
    stream_count: int = 1

    def __len__(self) -> int:
        return len(self.group_ids)

    @property
    def entities(self) -> Ints:
        """The number of each event's entity."""
        return self.group_ids // self.stream_count

    def sort_by_time(self) -> "EventHistory":
        """The same events by entity and time: the order within every tile, whatever its hop."""
        order = order_by_group_and_time(self.group_ids, self.times_us)
        columns = {slot: values[order] for slot, values in self.columns.items()}
        return replace(
            self,
            group_ids=self.group_ids[order],
            times_us=self.times_us[order],
            known_us=self.known_us[order],
            columns=columns,
        )
