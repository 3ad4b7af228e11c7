"""The events of many windows at once, for functions that need every one of them to make a training set."""

from collections.abc import Iterator
from typing import NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from headrace.aggregates.value_columns import Data, Mask

Ints = NDArray[np.int64]


class EventChunk(NamedTuple):
    """Some (entity, time) pairs, the events of their windows that count, and what of each is folded."""

    pairs: Ints
    tiles: Ints
    times_us: Ints
    data: Data


class WindowEvents(Protocol):
    """The windows of so many (entity, time) pairs, and the events in them."""

    @property
    def pair_count(self) -> int: ...

    def select(self, is_selected: Mask) -> "WindowEvents":
        """Of some pairs alone."""

    def split_into_chunks(self) -> Iterator[EventChunk]:
        """All of it, so much at a time as fits memory; a pair is never divided."""
