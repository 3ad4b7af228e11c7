"""Drift tiles: what was served of a model's version in one segment and one minute, counted as its reference is.

A tile is sums alone, so any order of merging gives the same. It is written in parts, each what some records added, and
the sum of its parts is the tile: a part is in the table with the offsets of its records, or neither is.
Texts that are not listed are counted in their bin; of them those with the least hashes are kept by name. Such a sample
merges too: whoever is in it at the end was in that of every part it occurs in, so its count is whole.
"""

import hashlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import orjson

from headrace.errors import HeadraceError
from headrace.evaluate.drift.layout import WHOLE, Layout
from headrace.score.reference import Counts, Segment

SAMPLE = 16

Sample = Mapping[str, int]


class BrokenTile(HeadraceError):
    """A row of gold/MODEL_drift that is no part of a tile of this version."""


class TileKey(NamedTuple):
    """Which tile: of which version, which rows (all, or those of a segment), which minute."""

    model: str
    version: str
    segment: tuple[Segment, ...]
    minute_us: int


@dataclass(frozen=True, eq=False)
class Tile:
    """How many rows, their counts by the version's layout, and by column a sample of the texts that are not listed."""

    n: int
    counts: Counts
    new: Mapping[str, Sample]


def merged(layout: Layout, tiles: Iterable[Tile]) -> Tile:
    """All the rows of some tiles in one."""
    n, counts, new = 0, np.zeros(layout.width, np.int64), dict[str, dict[str, int]]()
    for tile in tiles:
        n += tile.n
        counts += tile.counts
        for column, sample in tile.new.items():
            of = new.setdefault(column, {})
            for text, count in sample.items():
                of[text] = of.get(text, 0) + count
    return Tile(n, counts, {column: sampled(of) for column, of in new.items()})


def sampled(counts: Mapping[str, int]) -> dict[str, int]:
    """The texts with the least hashes, and their counts, in the order of their names."""
    least = sorted(counts, key=_hash)[:SAMPLE]
    return {text: counts[text] for text in sorted(least)}


def encode_key(key: TileKey) -> bytes:
    """A tile's key in its table."""
    return orjson.dumps([key.model, key.version, dict(key.segment), key.minute_us], option=orjson.OPT_SORT_KEYS)


def decode_key(key: bytes) -> TileKey:
    """What `encode_key` wrote.

    >>> decode_key(b'["fraud","3",{"country":"FR"},60000000]').segment
    (('country', 'FR'),)
    """
    try:
        model, version, segment, minute_us = orjson.loads(key)
        found = TileKey(str(model), str(version), tuple(sorted(segment.items())) or WHOLE, int(minute_us))
    except (ValueError, TypeError, AttributeError) as failure:
        raise BrokenTile(f"{key[:200]!r} is not the key of a drift tile: {failure}.") from failure
    return found


def encode(layout: Layout, tile: Tile) -> bytes:
    """A tile as its table holds it: where it has counts, and how many; a single row is in few of a thousand bins."""
    at = np.flatnonzero(tile.counts)
    return orjson.dumps(
        {"layout": layout.hash, "n": tile.n, "at": at.tolist(), "rows": tile.counts[at].tolist(), "new": {**tile.new}},
        option=orjson.OPT_SORT_KEYS,
    )


def decode(layout: Layout, value: bytes) -> Tile:
    """What `encode` wrote, once it was counted by this layout."""
    try:
        written = orjson.loads(value)
        if written["layout"] != layout.hash:
            raise BrokenTile(f"A drift tile was counted by {written['layout']!r:.40}, and its card says {layout.hash}.")
        return _tile(layout, written)
    except (ValueError, TypeError, KeyError, AttributeError, OverflowError) as failure:
        raise BrokenTile(f"{value[:200]!r} is not a drift tile: {failure!r:.200}.") from failure


def _tile(layout: Layout, written: Mapping[str, Any]) -> Tile:
    at, rows = (np.array(written[name] or np.zeros(0, np.int64)) for name in ("at", "rows"))
    if at.shape != rows.shape or at.ndim != 1 or {at.dtype, rows.dtype} != {np.dtype(np.int64)} or written["n"] < 0:
        raise ValueError("its counts are not places and rows")
    if len(at) and (rows.min() < 0 or at.min() < 0 or at.max() >= layout.width):
        raise ValueError("its counts are not those of its layout")
    counts = np.zeros(layout.width, np.int64)
    counts[at] = rows
    new = {
        name: sampled({text: int(count) for text, count in written["new"][name].items()})
        for name in written["new"].keys() & set(layout.names)
    }
    return Tile(int(written["n"]), counts, new)


def _hash(text: str) -> tuple[bytes, str]:
    return hashlib.blake2b(text.encode(errors="surrogatepass"), digest_size=8).digest(), text
