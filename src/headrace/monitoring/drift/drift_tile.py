"""Drift tiles: the counts of served values of a model's version in one segment and one minute, in the reference's bins.

A tile has only sums, so that any order of merging gives the same. It is written in parts, each of some records, and
the sum of its parts is the tile: a part and the offsets of its records are committed together.
Unlisted texts are counted in their bin; those with the least hashes are also kept by name. Such a sample merges too:
a text in the final sample was in the sample of every part with it, so its count is complete.
"""

import hashlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import orjson

from headrace.errors import HeadraceError
from headrace.models.versions.reference_distribution import Counts, Segment
from headrace.monitoring.drift.drift_layout import ALL_ROWS, DriftLayout

SAMPLE_SIZE = 16

TextSample = Mapping[str, int]


class BrokenDriftTileError(HeadraceError):
    """A row of gold/MODEL_drift that is not a part of a tile of this version."""


class DriftTileKey(NamedTuple):
    """The key of a tile: the version, the segment (or all rows), and the minute."""

    model: str
    version: str
    segment: tuple[Segment, ...]
    minute_us: int


@dataclass(frozen=True, eq=False)
class DriftTile:
    """The number of rows, their counts in the version's layout, and by column a sample of unlisted texts."""

    n: int
    counts: Counts
    unlisted_texts: Mapping[str, TextSample]


def merge_tiles(layout: DriftLayout, tiles: Iterable[DriftTile]) -> DriftTile:
    """Merge tiles into one."""
    n, counts, unlisted = 0, np.zeros(layout.width, np.int64), dict[str, dict[str, int]]()
    for tile in tiles:
        n += tile.n
        counts += tile.counts
        for column, sample in tile.unlisted_texts.items():
            text_counts = unlisted.setdefault(column, {})
            for text, count in sample.items():
                text_counts[text] = text_counts.get(text, 0) + count
    return DriftTile(n, counts, {column: sample_texts(of) for column, of in unlisted.items()})


def sample_texts(counts: Mapping[str, int]) -> dict[str, int]:
    """The texts with the least hashes, and their counts, in the order of their names."""
    sampled_texts = sorted(counts, key=_hash_text)[:SAMPLE_SIZE]
    return {text: counts[text] for text in sorted(sampled_texts)}


def encode_key(key: DriftTileKey) -> bytes:
    """Encode a tile's key."""
    return orjson.dumps([key.model, key.version, dict(key.segment), key.minute_us], option=orjson.OPT_SORT_KEYS)


def decode_key(key: bytes) -> DriftTileKey:
    """Decode what `encode_key` wrote.

    >>> decode_key(b'["fraud","3",{"country":"FR"},60000000]').segment
    (('country', 'FR'),)
    """
    try:
        model, version, segment, minute_us = orjson.loads(key)
        tile_key = DriftTileKey(str(model), str(version), tuple(sorted(segment.items())) or ALL_ROWS, int(minute_us))
    except (ValueError, TypeError, AttributeError) as failure:
        raise BrokenDriftTileError(f"{key[:200]!r} is not the key of a drift tile: {failure}.") from failure
    return tile_key


def encode_tile(layout: DriftLayout, tile: DriftTile) -> bytes:
    """Encode a tile sparsely: the indexes of its counts, and the counts; a row is in few of a thousand bins."""
    positions = np.flatnonzero(tile.counts)
    return orjson.dumps(
        {
            "layout": layout.hash,
            "n": tile.n,
            "at": positions.tolist(),
            "rows": tile.counts[positions].tolist(),
            "new": {**tile.unlisted_texts},
        },
        option=orjson.OPT_SORT_KEYS,
    )


def decode_tile(layout: DriftLayout, value: bytes) -> DriftTile:
    """Decode what `encode_tile` wrote, after checking its layout."""
    try:
        decoded = orjson.loads(value)
        if decoded["layout"] != layout.hash:
            raise BrokenDriftTileError(
                f"A drift tile was counted by {decoded['layout']!r:.40}, and its card says {layout.hash}."
            )
        return _parse_tile(layout, decoded)
    except (ValueError, TypeError, KeyError, AttributeError, OverflowError) as failure:
        raise BrokenDriftTileError(f"{value[:200]!r} is not a drift tile: {failure!r:.200}.") from failure


def _parse_tile(layout: DriftLayout, decoded: Mapping[str, Any]) -> DriftTile:
    positions, row_counts = (np.array(decoded[name] or np.zeros(0, np.int64)) for name in ("at", "rows"))
    if (
        positions.shape != row_counts.shape
        or positions.ndim != 1
        or {positions.dtype, row_counts.dtype} != {np.dtype(np.int64)}
        or decoded["n"] < 0
    ):
        raise ValueError("its counts are not places and rows")
    if len(positions) and (row_counts.min() < 0 or positions.min() < 0 or positions.max() >= layout.width):
        raise ValueError("its counts are not those of its layout")
    counts = np.zeros(layout.width, np.int64)
    counts[positions] = row_counts
    unlisted = {
        name: sample_texts({text: int(count) for text, count in decoded["new"][name].items()})
        for name in decoded["new"].keys() & set(layout.names)
    }
    return DriftTile(int(decoded["n"]), counts, unlisted)


def _hash_text(text: str) -> tuple[bytes, str]:
    return hashlib.blake2b(text.encode(errors="surrogatepass"), digest_size=8).digest(), text
