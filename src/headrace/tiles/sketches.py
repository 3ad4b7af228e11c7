"""HyperLogLog sketches: what is hashed, and how many different values a union of them has seen."""

from collections.abc import Sequence

import numpy as np
from datasketches import hll_sketch, hll_union, tgt_hll_type

# The first byte of a sketch tells its form: a list or a set of coupons, one a different value, or registers.
_COUPONS_FROM = {2: 8, 3: 12}


def sketch_of(values: Sequence[int] | Sequence[str], lg_k: int) -> bytes:
    """The sketch of some values; text gets a prefix, since the empty text would not be counted."""
    sketch = hll_sketch(lg_k, tgt_hll_type.HLL_8)
    for value in values:
        sketch.update("=" + value if isinstance(value, str) else int(value))
    return bytes(sketch.serialize_compact())


def distinct_in(sketches: Sequence[bytes], lg_k: int) -> int:
    """How many different values the sketches have seen together."""
    if not sketches:
        return 0
    if len(sketches) == 1:
        return _rounded(hll_sketch.deserialize(sketches[0]))
    if all(sketch[0] in _COUPONS_FROM for sketch in sketches):
        return _different_coupons(sketches)
    union = hll_union(lg_k)
    for sketch in sketches:
        union.update(hll_sketch.deserialize(sketch))
    return _rounded(union)


def _rounded(sketch: hll_sketch | hll_union) -> int:
    return round(float(sketch.get_estimate()))


def _different_coupons(sketches: Sequence[bytes]) -> int:
    joined = b"".join([sketch[_COUPONS_FROM[sketch[0]] :] for sketch in sketches])
    return int(np.count_nonzero(np.unique(np.frombuffer(joined, np.uint32))))
