"""Events of many entities as columns, prepared for the windows of a view; and the pairs whose features are wanted."""

from collections.abc import Mapping
from dataclasses import dataclass

from headrace.tiles.columns import Values
from headrace.tiles.layout import Slot
from headrace.tiles.timeline import Ints


@dataclass(frozen=True)
class Pairs:
    """Entities, by number, and the times at which their features are wanted; sorted by both they are read fastest."""

    owners: Ints
    at_us: Ints

    def __len__(self) -> int:
        return len(self.owners)


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
