"""Random numbers without a generator: the draw of a slot of an event is a hash of both, so any event can be made alone.

The hash is the finalizer of SplitMix64 (Steele, Lea, Flood: Fast splittable pseudorandom number generators, 2014).
"""

import numpy as np
from numpy.typing import NDArray

Numbers = NDArray[np.int64]

_WORD = (1 << 64) - 1
_EVENT, _SLOT, _SEED = 0x9E3779B97F4A7C15, 0xD1B54A32D192ED03, 0x8CB92BA72F3D8DD7
_FIRST, _SECOND = 0xBF58476D1CE4E5B9, 0x94D049BB133111EB


def draw(number: int, slot: int, seed: int, bound: int) -> int:
    """A number below the bound, for a slot of an event.

    >>> [draw(7, slot, seed=1, bound=100) for slot in range(4)]
    [72, 19, 2, 86]
    """
    word = (number * _EVENT + slot * _SLOT + seed * _SEED) & _WORD
    word = ((word ^ (word >> 30)) * _FIRST) & _WORD
    word = ((word ^ (word >> 27)) * _SECOND) & _WORD
    return ((word ^ (word >> 31)) >> 11) % bound


def draws(numbers: Numbers, slot: int, seed: int, bound: int | Numbers) -> Numbers:
    """The same for many events at once; each may have a bound of its own."""
    word = numbers.astype(np.uint64) * np.uint64(_EVENT) + np.uint64((slot * _SLOT + seed * _SEED) & _WORD)
    word = (word ^ (word >> np.uint64(30))) * np.uint64(_FIRST)
    word = (word ^ (word >> np.uint64(27))) * np.uint64(_SECOND)
    return ((word ^ (word >> np.uint64(31))) >> np.uint64(11)).astype(np.int64) % bound
