"""Events of many entities as columns, prepared for the windows of a view; and the pairs whose features are wanted."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from headrace.tiles.columns import Values
from headrace.tiles.layout import Slot
from headrace.tiles.timeline import Ints, by_owner_and_time


@dataclass(frozen=True)
class Pairs:
    """Entities, by number, and the times at which their features are wanted; sorted by both they are read fastest.

    What counts is what was known by then; `known_by_us` names other times for that, by hop and number of the stream.
    """

    owners: Ints
    at_us: Ints
    known_by_us: Mapping[tuple[int, int], Ints] = field(default_factory=dict)

    def __len__(self) -> int:
        return len(self.owners)

    def __getitem__(self, rows: Ints) -> "Pairs":
        known_by_us = {place: times_us[rows] for place, times_us in self.known_by_us.items()}
        return Pairs(self.owners[rows], self.at_us[rows], known_by_us)

    def known_by(self, hop_us: int, stream: int) -> Ints:
        """The times by which what counts was known, of one hop and stream."""
        return self.known_by_us.get((hop_us, stream), self.at_us)


@dataclass(frozen=True)
class History:
    """Events, each id once, of entities by number; of several streams, each has tiles of its own, as online.

    An entity's owners are its streams: number 7 of 3 streams owns as 21, 22 and 23. A slot's column is valid where an
    event counts, and holds what is folded: numbers as they are, of text its rank among all texts, for `first` and
    `last` the event's place in the order of time, id and stream, for `distinct` its coupon.
    """

    owners: Ints
    times_us: Ints
    known_us: Ints
    columns: Mapping[Slot, Values]
    streams: int = 1

    def __len__(self) -> int:
        return len(self.owners)

    @property
    def entities(self) -> Ints:
        """The number of each event's entity."""
        return self.owners // self.streams

    def sorted(self) -> "History":
        """The same events by entity and time: as they stand in every tile, whatever its hop."""
        order = by_owner_and_time(self.owners, self.times_us)
        columns = {slot: values[order] for slot, values in self.columns.items()}
        return replace(
            self,
            owners=self.owners[order],
            times_us=self.times_us[order],
            known_us=self.known_us[order],
            columns=columns,
        )
