"""Events of many entities as columns, prepared for the windows of a view; and the pairs whose features are wanted."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from headrace.tiles.columns import Values
from headrace.tiles.layout import Slot
from headrace.tiles.timeline import Ints, by_owner_and_time


@dataclass(frozen=True)
class Pairs:
    """Entities, by number, and the times at which their features are wanted; sorted by both they are read fastest.

    What counts is what was known by then; `known_by_us` names other times for that, by hop.
    """

    owners: Ints
    at_us: Ints
    known_by_us: Mapping[int, Ints] = field(default_factory=dict)

    def __len__(self) -> int:
        return len(self.owners)

    def __getitem__(self, rows: Ints) -> "Pairs":
        known_by_us = {hop_us: times_us[rows] for hop_us, times_us in self.known_by_us.items()}
        return Pairs(self.owners[rows], self.at_us[rows], known_by_us)


@dataclass(frozen=True)
class History:
    """Events, each id once, of entities by number.

    A slot's column is valid where an event counts, and holds what is folded: numbers as they are, of text its rank
    among all texts, for `first` and `last` the event's place in the order of time and id, for `distinct` its coupon.
    """

    owners: Ints
    times_us: Ints
    known_us: Ints
    columns: Mapping[Slot, Values]

    def __len__(self) -> int:
        return len(self.owners)

    def sorted(self) -> "History":
        """The same events by entity and time: as they stand in every tile, whatever its hop."""
        order = by_owner_and_time(self.owners, self.times_us)
        columns = {slot: values[order] for slot, values in self.columns.items()}
        return History(self.owners[order], self.times_us[order], self.known_us[order], columns)
