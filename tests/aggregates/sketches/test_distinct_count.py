import random

import pytest
from datasketches import hll_sketch, hll_union, tgt_hll_type

from headrace.aggregates.sketches.distinct_count import build_distinct_sketch, estimate_distinct
from headrace.aggregates.sketches.sketch_sizes import hyperloglog_lg_k


def updatable(values: list[int], lg_k: int) -> bytes:
    """A sketch as Spark writes it: with room for more values."""
    sketch = hll_sketch(lg_k, tgt_hll_type.HLL_8)
    for value in values:
        sketch.update(value)
    return bytes(sketch.serialize_updatable())


def test_no_sketch_has_seen_nothing() -> None:
    assert estimate_distinct([]) == 0


def test_few_values_are_counted_exactly_and_the_empty_text_is_one_of_them() -> None:
    sketches = [build_distinct_sketch(values, 12) for values in (["a", "b", ""], ["b"], ["", "c", "é"])]
    assert estimate_distinct(sketches) == 5
    assert estimate_distinct(sketches[:1]) == 3


def test_integers_are_hashed_as_64_bits() -> None:
    assert (
        estimate_distinct(
            [build_distinct_sketch([0, 1, -1, 2**63 - 1, -(2**63)], 12), build_distinct_sketch([True, False], 12)]
        )
        == 5
    )


@pytest.mark.parametrize("size", [1, 7, 8, 100, 384])
def test_room_for_more_values_is_not_counted(size: int) -> None:
    assert estimate_distinct([updatable(list(range(size)), 12), updatable([0], 12)]) == size


@pytest.mark.parametrize("error", [0.25, 0.02, 0.01])
@pytest.mark.parametrize("sizes", [(5_000, 5_000, 1), (20_000,) * 12, (300,) * 30, (600, 20, 3, 9_000)])
def test_a_union_is_within_its_stated_error(error: float, sizes: tuple[int, ...]) -> None:
    chance = random.Random(1)
    values = [[chance.getrandbits(62) for _ in range(size)] for size in sizes]
    sketches = [build_distinct_sketch(part, hyperloglog_lg_k(error)) for part in values]
    different = len({value for part in values for value in part})
    assert abs(estimate_distinct(sketches) - different) <= 4 * error * different


def test_a_union_of_registers_is_the_one_of_datasketches() -> None:
    sketches = [build_distinct_sketch(range(start, start + 3_000), 12) for start in range(0, 20_000, 1_500)]
    sketches.append(build_distinct_sketch(range(100_000, 100_010), 12))
    union = hll_union(12)
    for sketch in sketches:
        union.update(hll_sketch.deserialize(sketch))
    assert estimate_distinct(sketches) == round(union.get_estimate())


def test_the_order_of_sketches_does_not_matter() -> None:
    sketches = [build_distinct_sketch(range(size), 12) for size in (1, 2_000, 5, 100, 3_000)]
    assert estimate_distinct(sketches) == estimate_distinct(sketches[::-1])
