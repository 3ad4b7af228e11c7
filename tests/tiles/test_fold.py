from typing import Any

from headrace.declare.features.view import View
from headrace.tiles.fold import EventColumns, fold_into_tiles, to_event_columns
from headrace.tiles.layout import ARRIVAL, EVENT_COUNT, START, TIME, hop_layouts
from headrace.tiles.tile import FeatureTile, FeatureTileKey
from tests.tiles.views import MINUTE_US, Numbers, Objects, payments


def events(*written: dict[str, Any]) -> EventColumns:
    whole = [dict.fromkeys(payments.schema.names) | {"id": f"p{i}", "card": "c1"} | e for i, e in enumerate(written)]
    return to_event_columns(Numbers, payments, whole, [event["at"] + 5 for event in whole])


def folded(view: View, *written: dict[str, Any]) -> dict[FeatureTileKey, FeatureTile]:
    return dict(fold_into_tiles(view, events(*written)))


def test_no_events_fold_into_no_tiles() -> None:
    assert folded(Numbers) == {}


def test_each_entity_and_start_has_one_tile_with_its_head() -> None:
    tiles = folded(Numbers, {"at": 61_000_000}, {"at": 60_000_000}, {"at": 61_000_000, "card": "c2"}, {"at": 0})
    layout = hop_layouts(Numbers)[0]
    heads = {(key.entity[0], key.start_us): layout.row_struct.unpack(tile.row) for key, tile in tiles.items()}
    assert sorted(heads) == [("c1", 0), ("c1", MINUTE_US), ("c2", MINUTE_US)]
    head = heads["c1", MINUTE_US]
    assert (head[START], head[EVENT_COUNT], head[TIME], head[ARRIVAL]) == (MINUTE_US, 2, 61_000_000, 61_000_005)
    assert {key.version for key in tiles} == {layout.version}


def test_times_before_1970_belong_to_the_tile_that_starts_before_them() -> None:
    assert [key.start_us for key in folded(Numbers, {"at": -1}, {"at": -MINUTE_US - 1})] == [-2 * MINUTE_US, -MINUTE_US]


def test_an_event_without_its_entity_belongs_to_none() -> None:
    assert folded(Numbers, {"card": None, "at": 0}) == {}


def test_of_events_at_one_time_the_smaller_id_is_first_and_the_greater_last() -> None:
    tiles = folded(
        Objects,
        {"id": "b", "amount": 2.0, "seen": 2, "at": 7},
        {"id": "a", "amount": 1.0, "seen": 1, "at": 7},
        {"id": "é", "amount": 3.0, "seen": 3, "at": 7},
        {"id": "z", "amount": None, "seen": None, "at": 1},
    )
    (tile,) = tiles.values()
    layout = hop_layouts(Objects)[0]
    stored = {slot.partial.name: found for (_, slot), found in zip(layout.object_slots, tile.objects, strict=True)}
    assert stored["first"] == (7, "a", 1.0)
    assert stored["last"] == (7, "é", 3)


def test_the_order_of_events_does_not_matter() -> None:
    written = [
        {"id": f"p{i}", "amount": i * 0.5, "shop": f"s{i % 3}", "at": i * 7_000_000 % 300_000_000} for i in range(90)
    ]
    assert folded(Objects, *written) == folded(Objects, *written[::-1])
