"""What is kept of the values of one aggregate: added one by one or merged, in any order, with the same result.

    Count   Total (sum, mean)   Spread (var, stddev)   Extreme (min, max)   Occurrence (first, last)
    Distinct: HyperLogLog   Quantile: KLL

They say what the tiles say of the same events: NaN is the greatest number, integers are summed exactly, ties of first
and last go by the id. Where tiles round at every merge, these do not round at all.
"""

import math
from binascii import a2b_base64, b2a_base64
from collections.abc import Callable
from typing import Any, Protocol, Self

from datasketches import hll_sketch, hll_union, kll_doubles_sketch, tgt_hll_type

from headrace.declare.aggregates import Aggregate
from headrace.declare.schema import Kind
from headrace.operators.exact import Exact, quotient
from headrace.operators.plain import from_plain, plain
from headrace.tiles.layout import INT64_MAX, INT64_MIN, slot_of
from headrace.tiles.quantiles import quantile_in
from headrace.tiles.sketches import distinct_in
from headrace.tiles.tile import Scalar


class Accumulator(Protocol):
    """What is kept of one aggregate; only values that are there are added."""

    def add(self, value: Any, time_us: int, id: Scalar) -> None: ...  # noqa: A002  # as everywhere

    def absorb(self, other: Self) -> None:
        """Take over what another has, of other events."""
        ...

    def value(self) -> Any:
        """What the user asked for; times in microseconds."""
        ...

    def packed(self) -> Any:
        """What is kept, in values that JSON has."""
        ...

    def unpack(self, written: Any) -> None:
        """Be what was kept."""
        ...


class Count:
    """How many."""

    __slots__ = ("number",)

    def __init__(self) -> None:
        self.number = 0

    def add(self, value: Any, time_us: int, id: Scalar) -> None:  # noqa: A002, ARG002
        self.number += 1

    def absorb(self, other: Self) -> None:
        self.number += other.number

    def value(self) -> int:
        return self.number

    def packed(self) -> int:
        return self.number

    def unpack(self, written: int) -> None:
        self.number = written


class Total:
    """The sum or the mean of a column; a sum of integers that no 64 bits can hold is null."""

    __slots__ = ("aggregate", "number", "sum")

    def __init__(self, aggregate: Aggregate) -> None:
        self.aggregate, self.number, self.sum = aggregate, 0, Exact()

    def add(self, value: Any, time_us: int, id: Scalar) -> None:  # noqa: A002, ARG002
        self.number += 1
        self.sum.add(value)

    def absorb(self, other: Self) -> None:
        self.number += other.number
        self.sum.absorb(other.sum)

    def value(self) -> float | None:
        if not self.number:
            return None
        if self.aggregate.function == "mean":
            return self.sum.over(self.number)
        if self.aggregate.kind is Kind.INTEGER:
            return self.sum.number if INT64_MIN <= self.sum.number <= INT64_MAX else None
        return self.sum.over(1)

    def packed(self) -> list[Any]:
        return [self.number, self.sum.packed()]

    def unpack(self, written: list[Any]) -> None:
        self.number, self.sum = written[0], Exact.unpacked(written[1])


class Spread:
    """The sample variance or its root, from the exact sums of values and of their squares."""

    __slots__ = ("aggregate", "number", "squares", "sum")

    def __init__(self, aggregate: Aggregate) -> None:
        self.aggregate, self.number, self.sum, self.squares = aggregate, 0, Exact(), Exact()

    def add(self, value: Any, time_us: int, id: Scalar) -> None:  # noqa: A002, ARG002
        self.number += 1
        self.sum.add(value)
        self.squares.add_square(value)

    def absorb(self, other: Self) -> None:
        self.number += other.number
        self.sum.absorb(other.sum)
        self.squares.absorb(other.squares)

    def value(self) -> float | None:
        if self.number < 2:
            return None
        variance = math.nan if self.sum.odd != 0 else self._variance()
        return math.sqrt(variance) if self.aggregate.function == "stddev" else variance

    def _variance(self) -> float:
        """(n Σx² − (Σx)²) / (n (n − 1)), in whole numbers over one power of two."""
        bits = max(self.squares.bits, 2 * self.sum.bits)
        squares = self.squares.number << (bits - self.squares.bits)
        squared = self.sum.number**2 << (bits - 2 * self.sum.bits)
        return quotient(self.number * squares - squared, self.number * (self.number - 1) << bits)

    def packed(self) -> list[Any]:
        return [self.number, self.sum.packed(), self.squares.packed()]

    def unpack(self, written: list[Any]) -> None:
        self.number = written[0]
        self.sum, self.squares = Exact.unpacked(written[1]), Exact.unpacked(written[2])


class Extreme:
    """The smallest or the greatest value; NaN is greater than every number."""

    __slots__ = ("aggregate", "best")

    def __init__(self, aggregate: Aggregate) -> None:
        self.aggregate = aggregate
        self.best: Any = None

    def add(self, value: Any, time_us: int, id: Scalar) -> None:  # noqa: A002, ARG002
        if self.best is None or self._is_better(_ranked(value), _ranked(self.best)):
            self.best = value

    def _is_better(self, rank: Any, than: Any) -> bool:
        return bool(rank < than if self.aggregate.function == "min" else rank > than)

    def absorb(self, other: Self) -> None:
        if other.best is not None:
            self.add(other.best, 0, 0)

    def value(self) -> Any:
        return self.best

    def packed(self) -> Any:
        return plain(self.best)

    def unpack(self, written: Any) -> None:
        self.best = from_plain(written, self.aggregate.kind or Kind.STRING)


def _ranked(value: Any) -> Any:
    """What a value is compared by; of the two zeros the negative one is smaller."""
    return (math.isnan(value), value, math.copysign(1, value)) if isinstance(value, float) else value


class Occurrence:
    """The value with the earliest or the latest event time; ties go to the smaller or the greater id."""

    __slots__ = ("aggregate", "found")

    def __init__(self, aggregate: Aggregate) -> None:
        self.aggregate = aggregate
        self.found: tuple[int, Any, Any] | None = None

    def add(self, value: Any, time_us: int, id: Scalar) -> None:  # noqa: A002
        if self.found is None or self._is_better((time_us, id), self.found[:2]):
            self.found = time_us, id, value

    def _is_better(self, place: tuple[int, Any], than: tuple[int, Any]) -> bool:
        return place < than if self.aggregate.function == "first" else place > than

    def absorb(self, other: Self) -> None:
        if other.found is not None:
            time_us, id, value = other.found  # noqa: A001
            self.add(value, time_us, id)

    def value(self) -> Any:
        return None if self.found is None else self.found[2]

    def packed(self) -> Any:
        return None if self.found is None else [*self.found[:2], plain(self.found[2])]

    def unpack(self, written: Any) -> None:
        if written is not None:
            self.found = written[0], written[1], from_plain(written[2], self.aggregate.kind or Kind.STRING)


class Distinct:
    """How many different values, by HyperLogLog."""

    __slots__ = ("lg_k", "sketch")

    def __init__(self, aggregate: Aggregate) -> None:
        self.lg_k = slot_of(aggregate).size
        self.sketch = hll_sketch(self.lg_k, tgt_hll_type.HLL_8)

    def add(self, value: Any, time_us: int, id: Scalar) -> None:  # noqa: A002, ARG002
        self.sketch.update("=" + value if isinstance(value, str) else int(value))

    def absorb(self, other: Self) -> None:
        both = hll_union(self.lg_k)
        both.update(self.sketch)
        both.update(other.sketch)
        self.sketch = both.get_result(tgt_hll_type.HLL_8)

    def value(self) -> int:
        return 0 if self.sketch.is_empty() else distinct_in([bytes(self.sketch.serialize_compact())])

    def packed(self) -> str:
        return b2a_base64(self.sketch.serialize_compact(), newline=False).decode()

    def unpack(self, written: str) -> None:
        self.sketch = hll_sketch.deserialize(a2b_base64(written))


class Quantile:
    """The smallest value that at least a share of the values do not exceed, by KLL; NaN is passed over."""

    __slots__ = ("share", "sketch")

    def __init__(self, aggregate: Aggregate) -> None:
        self.share = aggregate.share or 0.0
        self.sketch = kll_doubles_sketch(slot_of(aggregate).size)

    def add(self, value: Any, time_us: int, id: Scalar) -> None:  # noqa: A002, ARG002
        self.sketch.update(float(value) + 0.0)  # of the two zeros it keeps the one

    def absorb(self, other: Self) -> None:
        self.sketch.merge(other.sketch)

    def value(self) -> float | None:
        return quantile_in([bytes(self.sketch.serialize())], self.share)

    def packed(self) -> str:
        return b2a_base64(self.sketch.serialize(), newline=False).decode()

    def unpack(self, written: str) -> None:
        self.sketch = kll_doubles_sketch.deserialize(a2b_base64(written))


_ACCUMULATORS: dict[str, Callable[[Aggregate], Accumulator]] = {
    "count": lambda _: Count(),
    "sum": Total,
    "mean": Total,
    "var": Spread,
    "stddev": Spread,
    "min": Extreme,
    "max": Extreme,
    "first": Occurrence,
    "last": Occurrence,
    "distinct": Distinct,
    "quantile": Quantile,
}


def accumulator_of(aggregate: Aggregate) -> Accumulator:
    """What is kept of an aggregate before anything came."""
    return _ACCUMULATORS[aggregate.function](aggregate)
