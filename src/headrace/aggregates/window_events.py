"""The events of many windows, for functions that need each of them in training sets."""

from collections.abc import Iterator
from typing import NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from headrace.aggregates.value_columns import Data, Mask

Ints = NDArray[np.int64]


class EventChunk(NamedTuple):
    """Some (entity, time) pairs, the counted events of their windows, and the folded value of each."""

    pairs: Ints
    tiles: Ints
    times_us: Ints
    data: Data


class WindowEvents(Protocol):
    """The windows of many (entity, time) pairs, and their events."""

    @property
    def pair_count(self) -> int: ...

    def select(self, is_selected: Mask) -> "WindowEvents":
        """The windows of the selected pairs."""

    def split_into_chunks(self) -> Iterator[EventChunk]:
        """Split into chunks that fit memory; a pair is never divided."""
