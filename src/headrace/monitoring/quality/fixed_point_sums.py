"""Exact sums of floats: independent of order, and zero after everything added is subtracted.

A float is cut into pieces of 32 bits, each summed as a separate integer; two thousand million rows fit.
"""

from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

Integers = NDArray[np.int64]
Floats = NDArray[np.float64]

SMALL_PIECES = 2
LARGE_PIECES = 68
_WORD_BITS = 32
_MASK = np.uint64(2**_WORD_BITS - 1)
_SMALL_BITS = 58  # fraction bits, of which the first piece has 26: values are below 64
_LARGE_BITS = 1126  # the lowest bit of the smallest float


def split_fixed_point(values: Floats) -> Integers:
    """Two pieces for each value from 0 to below 64, exact to 2⁻⁵⁹."""
    shifted = values * 2.0 ** (_SMALL_BITS - _WORD_BITS)
    high = np.floor(shifted)
    low = np.rint((shifted - high) * 2.0**_WORD_BITS)
    return np.stack([high, low], axis=-1).astype(np.int64)


def small_sum(pieces: Integers) -> float:
    """The sum of pieces.

    >>> small_sum(split_fixed_point(np.array([0.25, 0.5])).sum(axis=0))
    0.75
    """
    high, low = map(int, pieces)
    return float(Fraction((high << _WORD_BITS) + low, 1 << _SMALL_BITS))


def split_float(values: Floats) -> tuple[Integers, Integers]:
    """The indexes and contents of the three pieces of each finite value: exact for every float."""
    fractions, exponents = np.frexp(np.abs(values))
    mantissas = (fractions * 2.0**53).astype(np.uint64)
    first, shift = np.divmod(exponents.astype(np.int64) - 53 + _LARGE_BITS, _WORD_BITS)
    low = (mantissas & _MASK) << shift.astype(np.uint64)
    high = (mantissas >> np.uint64(_WORD_BITS)) << shift.astype(np.uint64)
    words = [low & _MASK, (low >> np.uint64(_WORD_BITS)) + (high & _MASK), high >> np.uint64(_WORD_BITS)]
    pieces = np.stack(words, axis=-1).astype(np.int64) * np.sign(values).astype(np.int64)[:, None]
    return first[:, None] + np.arange(3), pieces


def large_sum(pieces: Integers) -> Fraction:
    """The exact sum of pieces."""
    total = sum(int(piece) << (_WORD_BITS * position) for position, piece in enumerate(pieces) if piece)
    return Fraction(total, 1 << _LARGE_BITS)
