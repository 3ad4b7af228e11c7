"""HyperLogLog sketches: hashing, and the number of distinct values in the union of several sketches.

A serialized sketch of datasketches begins with 2 (a list of coupons), 3 (a set of coupons) or 10 (registers):

    8 bytes of header (byte 3: lg k) │ coupons: uint32, 0 = empty  coupon = value (6 bits) · address (26 bits)
    8 bytes of header, count         │ coupons
    40 bytes of header and sums      │ k registers of one byte     register = greatest value of its address

Unions are computed on these bytes: ten times as fast as a union object that merges one sketch object per tile.
"""

import struct
from collections.abc import Iterable, Sequence
from functools import cache
from itertools import count

import numpy as np
from datasketches import hll_sketch, tgt_hll_type
from numpy.typing import NDArray

Coupons = NDArray[np.uint32]
Registers = NDArray[np.uint8]

MAX_LG_K = 21
_COUPONS_FROM = {2: 8, 3: 12}
_REGISTERS, _REGISTERS_FROM = 10, 40
_FEW_BYTES = 512
# Ten ints of preamble, version 1, family 7; 0x10: out of order; 0x0A: registers of one byte; three sums.
_REGISTERS_HEAD = struct.Struct("<8B3d2i")


def build_distinct_sketch(values: Iterable[int | str], lg_k: int) -> bytes:
    """The sketch of values; text gets a prefix, because the empty text would not be counted."""
    sketch = hll_sketch(lg_k, tgt_hll_type.HLL_8)
    for value in values:
        sketch.update("=" + value if isinstance(value, str) else int(value))
    return bytes(sketch.serialize_compact())


def to_coupon(value: int | str) -> int:
    """The coupon of a value."""
    return int.from_bytes(build_distinct_sketch([value], MAX_LG_K)[_COUPONS_FROM[2] :], "little")


@cache
def max_coupons(lg_k: int) -> int:
    """The number of distinct values a sketch holds as coupons; with one more it converts to registers."""
    sketch = hll_sketch(lg_k, tgt_hll_type.HLL_8)
    for number in count():
        sketch.update(number)
        if sketch.serialize_compact()[0] == _REGISTERS:
            return number
    raise AssertionError("every sketch converts to registers")


def estimate_from_coupons(coupons: Coupons, lg_k: int) -> int:
    """The estimated number of distinct values with these coupons, by the registers of a sketch."""
    return _estimate(lg_k, np.zeros(1 << lg_k, np.uint8), coupons)


def estimate_distinct(sketches: Sequence[bytes]) -> int:
    """The estimated number of distinct values in the union of sketches."""
    register_sketches = [sketch for sketch in sketches if sketch[0] == _REGISTERS]
    coupon_sketches = [sketch for sketch in sketches if sketch[0] != _REGISTERS] if register_sketches else sketches
    coupons = b"".join([sketch[_COUPONS_FROM[sketch[0]] :] for sketch in coupon_sketches])
    if register_sketches:
        return _estimate(register_sketches[0][3], _max_registers(register_sketches), np.frombuffer(coupons, np.uint32))
    return (
        _count_coupons(np.frombuffer(bytearray(coupons), np.uint32))
        if len(coupons) > _FEW_BYTES
        else _count_few_coupons(coupons)
    )


def _count_coupons(coupons: Coupons) -> int:
    """Coupons map one-to-one to values up to collisions in 32 bits: their number is the best estimate."""
    coupons.sort()
    return int(np.count_nonzero(coupons[1:] != coupons[:-1]) + (coupons[0] != 0))


def _count_few_coupons(coupons: bytes) -> int:
    """The same for few coupons, where a call of numpy costs more than it saves."""
    distinct = set(memoryview(coupons).cast("I"))
    return len(distinct) - (0 in distinct)


def _max_registers(register_sketches: Sequence[bytes]) -> Registers:
    stacked = np.frombuffer(b"".join([sketch[_REGISTERS_FROM:] for sketch in register_sketches]), np.uint8)
    greatest: Registers = np.maximum.reduce(stacked.reshape(len(register_sketches), -1), axis=0)
    return greatest


def _estimate(lg_k: int, registers: Registers, coupons: Coupons) -> int:
    """Estimate from the registers alone, not from the order of updates: the result is the same everywhere."""
    np.maximum.at(registers, coupons & ((1 << lg_k) - 1), (coupons >> 26).astype(np.uint8))
    sketch = _registers_head(lg_k, registers) + registers.tobytes()
    return round(float(hll_sketch.deserialize(sketch).get_estimate()))


def _registers_head(lg_k: int, registers: Registers) -> bytes:
    counts = np.bincount(registers, minlength=64)
    shares = counts * 0.5 ** np.arange(64)
    low, high = float(shares[:32].sum()), float(shares[32:].sum())
    return _REGISTERS_HEAD.pack(10, 1, 7, lg_k, 0, 0x10, 0, 0x0A, 0.0, low, high, int(counts[0]), 0)
