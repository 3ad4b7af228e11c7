"""Sums without rounding: what they give does not depend on the order in which values came, or were merged.

A double is a whole number over a power of two, and so is any sum of doubles. It is rounded once, when it is asked for.
"""

import math
from typing import Any


class Exact:
    """The exact sum of some numbers: `number` over 2 to the `bits`, and the sum of those that are not finite."""

    __slots__ = ("bits", "number", "odd")

    def __init__(self, number: int = 0, bits: int = 0, odd: float = 0.0) -> None:
        self.number, self.bits, self.odd = number, bits, odd

    def add(self, value: float) -> None:
        if isinstance(value, int):
            self.number += value << self.bits
        elif math.isfinite(value):
            number, over = value.as_integer_ratio()
            self._add(number, over.bit_length() - 1)
        else:
            self.odd += value

    def add_square(self, value: float) -> None:
        if math.isfinite(value):
            number, over = value.as_integer_ratio()
            self._add(number * number, 2 * (over.bit_length() - 1))
        else:
            self.odd += value * value

    def absorb(self, other: "Exact") -> None:
        self._add(other.number, other.bits)
        self.odd += other.odd

    def _add(self, number: int, bits: int) -> None:
        if bits > self.bits:
            self.number <<= bits - self.bits
            self.bits = bits
        self.number += number << (self.bits - bits)

    def over(self, count: int) -> float:
        """The sum over a count, rounded once."""
        if self.odd != 0:
            return self.odd
        return quotient(self.number, count << self.bits)

    def packed(self) -> list[Any]:
        return [f"{self.number:x}", self.bits, str(self.odd)]

    @classmethod
    def unpacked(cls, plain: list[Any]) -> "Exact":
        return cls(int(plain[0], 16), plain[1], float(plain[2]))


def quotient(number: int, over: int) -> float:
    """One whole number over another, rounded once; beyond the doubles it is infinite.

    >>> quotient(1, 3), quotient(-(10**400), 1)
    (0.3333333333333333, -inf)
    """
    try:
        return number / over
    except OverflowError:
        return math.inf if number > 0 else -math.inf
