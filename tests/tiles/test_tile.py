import math

import orjson
import pytest

from headrace.aggregates.partial import ColumnBlock
from headrace.aggregates.sketches.distinct_count import build_distinct_sketch
from headrace.tiles.layout import HopLayout, hop_layouts
from headrace.tiles.tile import FeatureTile, FeatureTileKey, decode_key, decode_tile, encode_key, encode_tile
from tests.tiles.views import MINUTE_US, Numbers, Objects

NUMBERS: HopLayout = hop_layouts(Numbers)[0]
OBJECTS: HopLayout = hop_layouts(Objects)[0]
HEAD = {"n": 3, "t": 61_000_000, "a": 62_000_000}


def column(layout: HopLayout, tile: FeatureTile, name: str) -> float:
    return float(layout.row_struct.unpack(tile.row)[layout.positions[name]])


def name_of(layout: HopLayout, block: ColumnBlock) -> str:
    return next(name for name, its_block in layout.fixed_columns if its_block is block)


@pytest.mark.parametrize("entity", [("c1",), ("",), ("é\U0001f600", "FR"), (-(2**63), True), (1_767_225_600_000_000,)])
def test_a_key_comes_back_from_its_bytes(entity: tuple[str | int, ...]) -> None:
    key = FeatureTileKey(entity, MINUTE_US, -MINUTE_US, "bd820751")
    assert decode_key(encode_key(key)) == key


def test_a_key_is_read_whatever_the_order_of_its_fields() -> None:
    key = decode_key(b'{"v":"bd820751","e1":"FR","s":0,"h":60000000,"e0":"c1"}')
    assert key == FeatureTileKey(("c1", "FR"), MINUTE_US, 0, "bd820751")


def test_an_absent_field_is_the_identity_of_its_block() -> None:
    tile = decode_tile(NUMBERS, MINUTE_US, orjson.dumps(HEAD))
    found = NUMBERS.row_struct.unpack(tile.row)
    assert found[:4] == (MINUTE_US, 3, 61_000_000, 62_000_000)
    for name, block in NUMBERS.fixed_columns:
        assert block.identity is not None
        assert column(NUMBERS, tile, name) == pytest.approx(block.identity, nan_ok=True)


@pytest.mark.parametrize(("text", "value"), [("NaN", math.nan), ("Infinity", math.inf), ("-Infinity", -math.inf)])
def test_a_float_that_json_cannot_say_comes_as_text(text: str, value: float) -> None:
    name = name_of(NUMBERS, ColumnBlock.FLOAT_ADD)
    tile = decode_tile(NUMBERS, 0, orjson.dumps(HEAD | {name: text}))
    assert column(NUMBERS, tile, name) == pytest.approx(value, nan_ok=True)
    assert orjson.loads(encode_tile(NUMBERS, tile))[name] == text


def test_objects_come_back_from_their_json() -> None:
    sketch = build_distinct_sketch(["a", ""], 12)
    stored = {
        "distinct": sketch,
        "first": (60_000_001, "p1", math.inf),
        "last": (60_000_002, "p2", -1),
        "text_min": "é",
    }
    objects = tuple(stored[slot.partial.name] for _, slot in OBJECTS.object_slots)
    tile = FeatureTile(OBJECTS.row_struct.pack(MINUTE_US, 2, 3, 4, *[1] * (OBJECTS.width - 4)), objects)
    assert decode_tile(OBJECTS, MINUTE_US, encode_tile(OBJECTS, tile)) == tile


def test_an_absent_object_is_none() -> None:
    assert decode_tile(OBJECTS, 0, orjson.dumps(HEAD)).objects == (None,) * 4
