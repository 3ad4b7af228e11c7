"""Sizes of sketches for a stated error."""

import math

DEFAULT_ERROR = 0.02


def hyperloglog_lg_k(error: float) -> int:
    """The size of the HyperLogLog, as a power of two, whose standard error (1.04 / √k) is at most this.

    >>> hyperloglog_lg_k(0.02)
    12
    """
    return math.ceil(2 * math.log2(1.04 / error))


def frequent_items_lg_size(error: float) -> int:
    """The size of the frequent items' map, as a power of two, whose error (3.5 / size) is at most this.

    >>> frequent_items_lg_size(0.02)
    8
    """
    return max(8, math.ceil(math.log2(3.5 / error)))  # 2^8 holds 192 values, more than any top


def kll_k(error: float) -> int:
    """The size of the KLL whose error of rank (2.296 / k^0.9021, as datasketches states it) is at most this.

    >>> kll_k(0.02)
    193
    """
    k: float = (2.296 / error) ** (1 / 0.9021)
    return max(8, math.ceil(k))
