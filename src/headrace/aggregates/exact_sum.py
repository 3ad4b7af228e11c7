"""Exact sums: the result does not depend on the order in which values are added or merged.

A double is an integer over a power of two, and so is any sum of doubles. It is rounded once, when it is read.
"""

import math
from fractions import Fraction
from typing import Any


class ExactSum:
    """The exact sum of numbers: `numerator` over 2 to the `denominator_bits`, and the sum of non-finite values."""

    __slots__ = ("denominator_bits", "non_finite", "numerator")

    def __init__(self, numerator: int = 0, denominator_bits: int = 0, non_finite: float = 0.0) -> None:
        self.numerator, self.denominator_bits, self.non_finite = numerator, denominator_bits, non_finite

    def add(self, value: float) -> None:
        if isinstance(value, int):
            self.numerator += value << self.denominator_bits
        elif math.isfinite(value):
            numerator, denominator = value.as_integer_ratio()
            self._add_fraction(numerator, denominator.bit_length() - 1)
        else:
            self.non_finite += value

    def add_power(self, value: float, power: int) -> None:
        """Add a power of a value."""
        if math.isfinite(value):
            numerator, denominator = value.as_integer_ratio()
            self._add_fraction(numerator**power, power * (denominator.bit_length() - 1))
        else:
            self.non_finite += value**power

    def merge(self, other: "ExactSum") -> None:
        self._add_fraction(other.numerator, other.denominator_bits)
        self.non_finite += other.non_finite

    def _add_fraction(self, numerator: int, denominator_bits: int) -> None:
        if denominator_bits > self.denominator_bits:
            self.numerator <<= denominator_bits - self.denominator_bits
            self.denominator_bits = denominator_bits
        self.numerator += numerator << (self.denominator_bits - denominator_bits)

    def divide_by(self, count: int) -> float:
        """The sum over a count, rounded once."""
        if self.non_finite != 0:
            return self.non_finite
        return quotient(self.numerator, count << self.denominator_bits)

    def encode_state(self) -> list[Any]:
        return [f"{self.numerator:x}", self.denominator_bits, str(self.non_finite)]

    def to_fraction(self) -> Fraction:
        """The sum of the finite values."""
        return Fraction(self.numerator, 1 << self.denominator_bits)

    @classmethod
    def decode_state(cls, encoded: list[Any]) -> "ExactSum":
        return cls(int(encoded[0], 16), encoded[1], float(encoded[2]))


def quotient(numerator: int, denominator: int) -> float:
    """The quotient of two integers, rounded once; infinite beyond the range of doubles.

    >>> quotient(1, 3), quotient(-(10**400), 1)
    (0.3333333333333333, -inf)
    """
    try:
        return numerator / denominator
    except OverflowError:
        return math.inf if numerator > 0 else -math.inf
