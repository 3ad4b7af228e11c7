"""Tiles equal brute-force counts, merge in any order, and reject records that are no tiles."""

from collections import Counter

import numpy as np
import orjson
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headrace.aggregates.value_columns import ValueColumn
from headrace.models.versions.reference_distribution import describe_references, parse_references
from headrace.monitoring.drift.drift_fold import MINUTE_US, fold_rows
from headrace.monitoring.drift.drift_layout import ALL_ROWS, DriftLayout
from headrace.monitoring.drift.drift_tile import (
    SAMPLE_SIZE,
    BrokenDriftTileError,
    DriftTileKey,
    decode_key,
    decode_tile,
    encode_key,
    encode_tile,
    merge_tiles,
)

RNG = np.random.default_rng(1)
TRAINED = {
    "amount": np.append(RNG.normal(size=997), [np.nan, np.inf, 0.7]).astype(np.float32),
    "count": RNG.poisson(2, 1000).astype(np.float32),
    "country": RNG.choice(np.array(["FR", "DE", "", "a" * 100], object), 1000),
}
LAYOUT = DriftLayout(parse_references(describe_references(TRAINED, {"country": TRAINED["country"]}), "The card"))

hostile = st.sampled_from([0.7, -0.0, 1e39, -1e308, np.nan, np.inf, -np.inf, 5e-324, 2.0, None])
texts = st.sampled_from(["FR", "DE", "", "FR\0", "a" * 100, "a" * 101, "new", "\ud800", "ö" * 70, None])
rows = st.tuples(hostile, hostile, texts, st.integers(-3 * MINUTE_US, 3 * MINUTE_US))


def column(values: list, dtype: type) -> ValueColumn:
    valid = np.array([value is not None for value in values], np.bool_)
    data = np.empty(len(values), dtype)
    data[:] = ["" if dtype is object else 0.0] if not values else [
        ("" if dtype is object else 0.0) if value is None else value for value in values
    ]  # fmt: skip
    return ValueColumn(data, valid)


def folded(drawn: list) -> dict:
    amount, count, country, times = (list(part) for part in zip(*drawn, strict=True)) if drawn else ([], [], [], [])
    columns = {
        "amount": column(amount, np.float64),
        "count": column(count, np.float64),
        "country": column(country, object),
    }
    return fold_rows(LAYOUT, columns, np.array(times, np.int64))


def place_of(name: str, value: object) -> int:
    """Where brute force counts a value."""
    (found,) = [one for one in LAYOUT.columns if one.name == name]
    if name == "country":
        listed = [*found.reference.values]
        text = next((one for one in listed if "…" in one), None) if value == "a" * 100 else value
        return (
            found.special_start
            if value in (None, "")
            else found.start + (listed.index(text) if text in listed else len(listed))
        )
    if value is None:
        return found.special_start
    number = (
        np.float32(value) if abs(value) < 3e38 or not np.isfinite(value) else np.float32(np.copysign(np.inf, value))
    )
    if np.isnan(number):
        return found.special_start + 1
    if np.isinf(number):
        return found.special_start + 2
    return found.start + sum(float(number) > cut for cut in found.reference.cuts)


@settings(max_examples=200)
@given(st.lists(rows, max_size=40))
def test_a_tile_counts_what_brute_force_counts(drawn):
    right: dict = {}
    for amount, count, country, time_us in drawn:
        key = "a" * 40 + "…" if country == "a" * 100 else country
        minute = time_us // MINUTE_US * MINUTE_US
        segments = [
            one for one in LAYOUT.segments if one and key and one[0][1].startswith(key) and len(one[0][1]) in (2, 57)
        ]
        for segment in [ALL_ROWS, *segments] if key in ("FR", "DE", "a" * 40 + "…") else [ALL_ROWS]:
            counted = right.setdefault((segment, minute), Counter())
            for name, value in (("amount", amount), ("count", count), ("country", country)):
                counted[place_of(name, value)] += 1
    found = folded(drawn)
    assert found.keys() == right.keys()
    for place, tile in found.items():
        assert {at: int(tile.counts[at]) for at in np.flatnonzero(tile.counts)} == right[place]
        assert tile.n == sum(right[place].values()) // 3


@settings(max_examples=100)
@given(st.lists(rows, max_size=60), st.randoms(use_true_random=False))
def test_the_order_of_merging_is_irrelevant(drawn, random):
    whole = merge_tiles(LAYOUT, [tile for (segment, _), tile in folded(drawn).items() if segment == ALL_ROWS])
    parts = [tile for row in drawn for (segment, _), tile in folded([row]).items() if segment == ALL_ROWS]
    random.shuffle(parts)
    middle = len(parts) // 2
    by_halves = merge_tiles(LAYOUT, [merge_tiles(LAYOUT, parts[middle:]), merge_tiles(LAYOUT, parts[:middle])])
    assert encode_tile(LAYOUT, by_halves) == encode_tile(LAYOUT, whole)


def test_texts_never_seen_are_sampled_and_counted_whole_whatever_the_batches():
    country = [f"new {number % 300}" for number in range(3000)]
    drawn = [(1.0, 1.0, text, 0) for text in country]
    parts = [folded(drawn[begin : begin + 700])[ALL_ROWS, 0] for begin in range(0, 3000, 700)]
    tile = merge_tiles(LAYOUT, parts)
    assert encode_tile(LAYOUT, tile) == encode_tile(LAYOUT, folded(drawn)[ALL_ROWS, 0])
    assert len(tile.unlisted_texts["country"]) == SAMPLE_SIZE
    assert set(tile.unlisted_texts["country"].values()) == {10}


@given(st.lists(rows, min_size=1, max_size=20))
def test_a_tile_survives_its_table(drawn):
    for (segment, minute), tile in folded(drawn).items():
        key = DriftTileKey("fraud", "3", segment, minute)
        assert decode_key(encode_key(key)) == key
        read = decode_tile(LAYOUT, encode_tile(LAYOUT, tile))
        assert (read.n, read.unlisted_texts) == (tile.n, tile.unlisted_texts)
        assert read.counts.tolist() == tile.counts.tolist()


def written(at: list, rows: list, new: object = None, layout: str = LAYOUT.hash) -> bytes:
    return orjson.dumps({"layout": layout, "n": 1, "at": at, "rows": rows, "new": new or {}})


HOSTILE = {
    "no JSON": b"\xff",
    "no object": b"[]",
    "another layout": written([], [], layout="x"),
    "too few counts": written([0, 1], [1]),
    "a place beyond": written([LAYOUT.width], [1]),
    "a place before": written([-1], [1]),
    "a negative count": written([0], [-1]),
    "a fraction": written([0], [0.5]),
    "a text for a count": written([0], ["1"]),
    "a list for a count": written([0], [[1]]),
    "more than 64 bits": b'{"layout":"%s","n":1,"at":[0],"rows":[18446744073709551615],"new":{}}'
    % LAYOUT.hash.encode(),
    "a list for a sample": written([0], [1], {"country": []}),
}


@pytest.mark.parametrize("value", HOSTILE.values(), ids=HOSTILE.keys())
def test_what_is_no_tile_is_refused(value):
    with pytest.raises(BrokenDriftTileError):
        decode_tile(LAYOUT, value)


@pytest.mark.parametrize("key", [b"", b"{}", b"[1,2,3]", b'["m","1",[],"x"]', b'["m","1",{},"x"]'])
def test_what_is_no_key_is_refused(key):
    with pytest.raises(BrokenDriftTileError):
        decode_key(key)


def test_a_double_falls_in_the_bin_its_float_was_trained_in():
    """0.7 is no float32: unless it is rounded as the model rounds it, it would be another value than was fitted on."""
    trained = {"x": np.array([0.7, 0.3, 0.1] * 100, np.float32)}
    layout = DriftLayout(parse_references(describe_references(trained, {}), "The card"))
    live = {"x": ValueColumn(np.array([0.7, 0.3, 0.1] * 100), np.ones(300, np.bool_))}
    assert fold_rows(layout, live, np.zeros(300, np.int64))[ALL_ROWS, 0].counts.tolist() == layout.reference.tolist()
