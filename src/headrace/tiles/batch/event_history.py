"""Events of many entities as columns, prepared for the windows of a view; and the pairs whose features are wanted."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from headrace.aggregates.partial import AggregateSlot
from headrace.aggregates.value_columns import ValueColumn
from headrace.tiles.batch.sorted_times import Ints, order_by_group_and_time


@dataclass(frozen=True)
class EntityTimePairs:
    """Entities, by number, and the times at which their features are wanted; sorted by both they are read fastest.

    What counts is what was known by then; `known_by_us` names other times for that, by hop and number of the stream.
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
        """The times by which what counts was known, of one hop and stream."""
        return self.known_by_us.get((hop_us, stream), self.at_us)


@dataclass(frozen=True)
class EventHistory:
    """Events, each id once, of entities by number; of several streams, each has tiles of its own, as online.

    An entity's owners are its streams: number 7 of 3 streams owns as 21, 22 and 23. A slot's column is valid where an
    event counts, and holds what is folded: numbers as they are, of text its rank among all texts, for `first` and
    `last` the event's place in the order of time, id and stream, for `distinct` its coupon.
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
        """The same events by entity and time: as they stand in every tile, whatever its hop."""
        order = order_by_group_and_time(self.group_ids, self.times_us)
        columns = {slot: values[order] for slot, values in self.columns.items()}
        return replace(
            self,
            group_ids=self.group_ids[order],
            times_us=self.times_us[order],
            known_us=self.known_us[order],
            columns=columns,
        )
