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

from headrace.declare.features.aggregates import Aggregate
from headrace.declare.streams.schema import Kind
from headrace.operators.json_values import from_json_value, to_json_value
from headrace.operators.windows.exact_sum import ExactSum, quotient
from headrace.tiles.layout import INT64_MAX, INT64_MIN, to_slot
from headrace.tiles.sketches.distinct_count import estimate_distinct
from headrace.tiles.sketches.quantiles import estimate_quantile
from headrace.tiles.tile import Scalar


class Accumulator(Protocol):
    """What is kept of one aggregate; only values that are there are added."""

    def add(self, value: Any, time_us: int, id: Scalar) -> None: ...  # noqa: A002  # as everywhere

    def merge(self, other: Self) -> None:
        """Take over what another has, of other events."""
        ...

    def result(self) -> Any:
        """What the user asked for; times in microseconds."""
        ...

    def encode_state(self) -> Any:
        """What is kept, in values that JSON has."""
        ...

    def restore_state(self, encoded: Any) -> None:
        """Be what was kept."""
        ...


class CountAccumulator:
    """How many."""

    __slots__ = ("count",)

    def __init__(self) -> None:
        self.count = 0

    def add(self, value: Any, time_us: int, id: Scalar) -> None:  # noqa: A002, ARG002
        self.count += 1

    def merge(self, other: Self) -> None:
        self.count += other.count

    def result(self) -> int:
        return self.count

    def encode_state(self) -> int:
        return self.count

    def restore_state(self, encoded: int) -> None:
        self.count = encoded


class SumAccumulator:
    """The sum or the mean of a column; a sum of integers that no 64 bits can hold is null."""

    __slots__ = ("aggregate", "count", "sum")

    def __init__(self, aggregate: Aggregate) -> None:
        self.aggregate, self.count, self.sum = aggregate, 0, ExactSum()

    def add(self, value: Any, time_us: int, id: Scalar) -> None:  # noqa: A002, ARG002
        self.count += 1
        self.sum.add(value)

    def merge(self, other: Self) -> None:
        self.count += other.count
        self.sum.merge(other.sum)

    def result(self) -> float | None:
        if not self.count:
            return None
        if self.aggregate.function == "mean":
            return self.sum.divide_by(self.count)
        if self.aggregate.kind is Kind.INTEGER:
            return self.sum.numerator if INT64_MIN <= self.sum.numerator <= INT64_MAX else None
        return self.sum.divide_by(1)

    def encode_state(self) -> list[Any]:
        return [self.count, self.sum.encode_state()]

    def restore_state(self, encoded: list[Any]) -> None:
        self.count, self.sum = encoded[0], ExactSum.decode_state(encoded[1])


class VarianceAccumulator:
    """The sample variance or its root, from the exact sums of values and of their squares."""

    __slots__ = ("aggregate", "count", "sum", "sum_of_squares")

    def __init__(self, aggregate: Aggregate) -> None:
        self.aggregate, self.count, self.sum, self.sum_of_squares = aggregate, 0, ExactSum(), ExactSum()

    def add(self, value: Any, time_us: int, id: Scalar) -> None:  # noqa: A002, ARG002
        self.count += 1
        self.sum.add(value)
        self.sum_of_squares.add_square(value)

    def merge(self, other: Self) -> None:
        self.count += other.count
        self.sum.merge(other.sum)
        self.sum_of_squares.merge(other.sum_of_squares)

    def result(self) -> float | None:
        if self.count < 2:
            return None
        variance = math.nan if self.sum.non_finite != 0 else self._variance()
        return math.sqrt(variance) if self.aggregate.function == "stddev" else variance

    def _variance(self) -> float:
        """(n Σx² − (Σx)²) / (n (n − 1)), in whole numbers over one power of two."""
        bits = max(self.sum_of_squares.denominator_bits, 2 * self.sum.denominator_bits)
        sum_of_squares = self.sum_of_squares.numerator << (bits - self.sum_of_squares.denominator_bits)
        squared_sum = self.sum.numerator**2 << (bits - 2 * self.sum.denominator_bits)
        return quotient(self.count * sum_of_squares - squared_sum, self.count * (self.count - 1) << bits)

    def encode_state(self) -> list[Any]:
        return [self.count, self.sum.encode_state(), self.sum_of_squares.encode_state()]

    def restore_state(self, encoded: list[Any]) -> None:
        self.count = encoded[0]
        self.sum, self.sum_of_squares = ExactSum.decode_state(encoded[1]), ExactSum.decode_state(encoded[2])


class MinMaxAccumulator:
    """The smallest or the greatest value; NaN is greater than every number."""

    __slots__ = ("aggregate", "best")

    def __init__(self, aggregate: Aggregate) -> None:
        self.aggregate = aggregate
        self.best: Any = None

    def add(self, value: Any, time_us: int, id: Scalar) -> None:  # noqa: A002, ARG002
        if self.best is None or self._is_better(_sort_rank(value), _sort_rank(self.best)):
            self.best = value

    def _is_better(self, rank: Any, best_rank: Any) -> bool:
        return bool(rank < best_rank if self.aggregate.function == "min" else rank > best_rank)

    def merge(self, other: Self) -> None:
        if other.best is not None:
            self.add(other.best, 0, 0)

    def result(self) -> Any:
        return self.best

    def encode_state(self) -> Any:
        return to_json_value(self.best)

    def restore_state(self, encoded: Any) -> None:
        self.best = from_json_value(encoded, self.aggregate.kind or Kind.STRING)


def _sort_rank(value: Any) -> Any:
    """What a value is compared by; of the two zeros the negative one is smaller."""
    return (math.isnan(value), value, math.copysign(1, value)) if isinstance(value, float) else value


class FirstLastAccumulator:
    """The value with the earliest or the latest event time; ties go to the smaller or the greater id."""

    __slots__ = ("aggregate", "best")

    def __init__(self, aggregate: Aggregate) -> None:
        self.aggregate = aggregate
        self.best: tuple[int, Any, Any] | None = None

    def add(self, value: Any, time_us: int, id: Scalar) -> None:  # noqa: A002
        if self.best is None or self._is_better((time_us, id), self.best[:2]):
            self.best = time_us, id, value

    def _is_better(self, rank: tuple[int, Any], best_rank: tuple[int, Any]) -> bool:
        return rank < best_rank if self.aggregate.function == "first" else rank > best_rank

    def merge(self, other: Self) -> None:
        if other.best is not None:
            time_us, id, value = other.best  # noqa: A001
            self.add(value, time_us, id)

    def result(self) -> Any:
        return None if self.best is None else self.best[2]

    def encode_state(self) -> Any:
        return None if self.best is None else [*self.best[:2], to_json_value(self.best[2])]

    def restore_state(self, encoded: Any) -> None:
        if encoded is not None:
            self.best = encoded[0], encoded[1], from_json_value(encoded[2], self.aggregate.kind or Kind.STRING)


class DistinctCountAccumulator:
    """How many different values, by HyperLogLog."""

    __slots__ = ("lg_k", "sketch")

    def __init__(self, aggregate: Aggregate) -> None:
        self.lg_k = to_slot(aggregate).size
        self.sketch = hll_sketch(self.lg_k, tgt_hll_type.HLL_8)

    def add(self, value: Any, time_us: int, id: Scalar) -> None:  # noqa: A002, ARG002
        self.sketch.update("=" + value if isinstance(value, str) else int(value))

    def merge(self, other: Self) -> None:
        union = hll_union(self.lg_k)
        union.update(self.sketch)
        union.update(other.sketch)
        self.sketch = union.get_result(tgt_hll_type.HLL_8)

    def result(self) -> int:
        return 0 if self.sketch.is_empty() else estimate_distinct([bytes(self.sketch.serialize_compact())])

    def encode_state(self) -> str:
        return b2a_base64(self.sketch.serialize_compact(), newline=False).decode()

    def restore_state(self, encoded: str) -> None:
        self.sketch = hll_sketch.deserialize(a2b_base64(encoded))


class QuantileAccumulator:
    """The smallest value that at least a share of the values do not exceed, by KLL; NaN is passed over."""

    __slots__ = ("share", "sketch")

    def __init__(self, aggregate: Aggregate) -> None:
        self.share = aggregate.share or 0.0
        self.sketch = kll_doubles_sketch(to_slot(aggregate).size)

    def add(self, value: Any, time_us: int, id: Scalar) -> None:  # noqa: A002, ARG002
        self.sketch.update(float(value) + 0.0)  # of the two zeros it keeps the one

    def merge(self, other: Self) -> None:
        self.sketch.merge(other.sketch)

    def result(self) -> float | None:
        return estimate_quantile([bytes(self.sketch.serialize())], self.share)

    def encode_state(self) -> str:
        return b2a_base64(self.sketch.serialize(), newline=False).decode()

    def restore_state(self, encoded: str) -> None:
        self.sketch = kll_doubles_sketch.deserialize(a2b_base64(encoded))


_ACCUMULATORS: dict[str, Callable[[Aggregate], Accumulator]] = {
    "count": lambda _: CountAccumulator(),
    "sum": SumAccumulator,
    "mean": SumAccumulator,
    "var": VarianceAccumulator,
    "stddev": VarianceAccumulator,
    "min": MinMaxAccumulator,
    "max": MinMaxAccumulator,
    "first": FirstLastAccumulator,
    "last": FirstLastAccumulator,
    "distinct": DistinctCountAccumulator,
    "quantile": QuantileAccumulator,
}


def create_accumulator(aggregate: Aggregate) -> Accumulator:
    """What is kept of an aggregate before anything came."""
    return _ACCUMULATORS[aggregate.function](aggregate)
