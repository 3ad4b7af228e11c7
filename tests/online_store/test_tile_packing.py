"""A tile survives the round trip through Redis unchanged."""

import math

import pytest

import headrace as hr
from headrace.aggregates.partial import StoredObject
from headrace.online_store.tile_packing import TileUnpacker, pack_tile, tile_field, unpack_tile
from headrace.tiles.layout import HopLayout, hop_layouts
from headrace.tiles.tile import FeatureTile
from tests.online_store.tiles import payments


@hr.features(payments, by="card")
class Objects:
    cards = hr.distinct("card", windows="10m")
    first_at = hr.first("at", windows="10m")
    last_amount = hr.last("amount", windows="10m")
    least = hr.min("card", windows="10m")
    tops = hr.top("card", 3, windows="10m")


def tile(layout: HopLayout, start_us: int, objects: dict[str, StoredObject]) -> FeatureTile:
    fixed = [0 if block.store == "int" else 0.0 for _, block in layout.fixed_columns]
    stored = tuple(objects.get(slot.partial.name) for _, slot in layout.object_slots)
    return FeatureTile(layout.row_struct.pack(start_us, 1, 2, 3, *fixed), stored)


def test_objects_of_every_kind_survive() -> None:
    (layout,) = hop_layouts(Objects)
    full = tile(
        layout,
        0,
        {
            "distinct": b"\x00sketch\xff",
            "first": (5, "p1", 7),
            "last": (9, "p2", 0.1),
            "text_min": "ein Größeres ☂ ",
            "top": b"\xff\x00counts",
        },
    )
    assert unpack_tile(layout, pack_tile(layout, full)) == full


def test_an_object_that_is_not_there_stays_away() -> None:
    (layout,) = hop_layouts(Objects)
    empty = tile(layout, 0, {"text_min": ""})
    assert unpack_tile(layout, pack_tile(layout, empty)) == empty


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf, -0.0, 5e-324])
def test_doubles_that_json_cannot_say_survive(value: float) -> None:
    (layout,) = hop_layouts(Objects)
    packed = pack_tile(layout, tile(layout, 0, {"last": (9, "p2", value)}))
    (last,) = [stored for stored in unpack_tile(layout, packed).objects if isinstance(stored, tuple)]
    assert repr(last[2]) == repr(value)


def test_rows_come_back_in_the_order_of_their_start_even_before_1970() -> None:
    (layout,) = hop_layouts(Objects)
    starts = [60, -120, 0, -60]
    fields = {tile_field(layout, start): pack_tile(layout, tile(layout, start, {})) for start in starts}
    (rows,) = TileUnpacker([layout]).unpack_rows(fields | {b"othr" + bytes(8): b"of another layout"})
    assert rows is not None
    assert [
        layout.row_struct.unpack_from(rows.buffer, index * layout.row_struct.size)[0] for index in range(4)
    ] == sorted(starts)


def test_a_hop_without_fields_has_no_rows() -> None:
    assert TileUnpacker(hop_layouts(Objects)).unpack_rows({}) == [None]
