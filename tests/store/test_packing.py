"""A tile comes out of Redis as it went in."""

import math

import pytest

import headrace as hr
from headrace.store.packing import Unpacker, field_of, pack, unpack
from headrace.tiles.layout import HopLayout, layouts_of
from headrace.tiles.tile import Stored, Tile
from tests.store.tiles import payments


@hr.features(payments, by="card")
class Objects:
    cards = hr.distinct("card", windows="10m")
    first_at = hr.first("at", windows="10m")
    last_amount = hr.last("amount", windows="10m")
    least = hr.min("card", windows="10m")
    tops = hr.top("card", 3, windows="10m")


def tile(layout: HopLayout, start_us: int, objects: dict[str, Stored]) -> Tile:
    fixed = [0 if block.store == "int" else 0.0 for _, block in layout.fixed]
    stored = tuple(objects.get(slot.partial.value) for _, slot in layout.object_slots)
    return Tile(layout.row.pack(start_us, 1, 2, 3, *fixed), stored)


def test_objects_of_every_kind_survive() -> None:
    (layout,) = layouts_of(Objects)
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
    assert unpack(layout, pack(layout, full)) == full


def test_an_object_that_is_not_there_stays_away() -> None:
    (layout,) = layouts_of(Objects)
    empty = tile(layout, 0, {"text_min": ""})
    assert unpack(layout, pack(layout, empty)) == empty


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf, -0.0, 5e-324])
def test_doubles_that_json_cannot_say_survive(value: float) -> None:
    (layout,) = layouts_of(Objects)
    packed = pack(layout, tile(layout, 0, {"last": (9, "p2", value)}))
    (last,) = [stored for stored in unpack(layout, packed).objects if isinstance(stored, tuple)]
    assert repr(last[2]) == repr(value)


def test_rows_come_back_in_the_order_of_their_start_even_before_1970() -> None:
    (layout,) = layouts_of(Objects)
    starts = [60, -120, 0, -60]
    fields = {field_of(layout, start): pack(layout, tile(layout, start, {})) for start in starts}
    (rows,) = Unpacker([layout]).rows_by_hop(fields | {b"othr" + bytes(8): b"of another layout"})
    assert rows is not None
    assert [layout.row.unpack_from(rows.rows, index * layout.row.size)[0] for index in range(4)] == sorted(starts)


def test_a_hop_without_fields_has_no_rows() -> None:
    assert Unpacker(layouts_of(Objects)).rows_by_hop({}) == [None]
