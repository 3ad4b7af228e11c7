"""Changelog records as Spark would write them: each event gives a new version of its tile in every hop."""

import os
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import count

import headrace as hr
from headrace.log.records import Record
from headrace.tiles.layout import Partial, layouts_of
from headrace.tiles.tile import Stored, Tile, TileKey, encode_key, encode_tile

MINUTE_US = 60_000_000
T0_US = 1_767_225_600_000_000

payments = hr.Stream(
    "payments", schema="id string, card string, amount double, at timestamp", id="id", key="card", time="at"
)


_numbers = count()


@hr.features(payments, by="card")
class Spend:
    payments = hr.count(windows=["10m", "1h"])
    spend = hr.sum("amount", windows="1h")
    last = hr.last("amount", windows="1h")


def new_spend(stream: hr.Stream = payments) -> hr.View:
    """`Spend` under a name no other test has, so that tests can share one Redis."""
    return replace(Spend, name=f"Spend{os.getpid()}x{next(_numbers)}", streams=(stream,))


@dataclass(frozen=True)
class Event:
    card: str
    time_us: int


def changelog(events: Iterable[Event], view: hr.View = Spend) -> list[Record]:
    """The tiles after each event, in the order they would be written; each event's amount is 1.5."""
    counts: dict[TileKey, int] = {}
    records: list[Record] = []
    for event in events:
        for layout in layouts_of(view):
            start_us = event.time_us // layout.hop_us * layout.hop_us
            key = TileKey((event.card,), layout.hop_us, start_us, layout.version)
            counts[key] = counts.get(key, 0) + 1
            records.append(tile_record(view, key, counts[key], event.time_us, len(records)))
    return records


def tile_record(view: hr.View, key: TileKey, n: int, time_us: int, offset: int = 0) -> Record:
    """One version of a tile: n payments of 1.5 each."""
    (layout,) = [layout for layout in layouts_of(view) if layout.version == key.version]
    fixed = [n if block.store == "int" else n * 1.5 for _, block in layout.fixed]
    objects: Sequence[Stored] = [
        (time_us, f"p{n:03}", float("nan") if n == 2 else n * 1.5) if slot.partial is Partial.LAST else "text"
        for _, slot in layout.object_slots
    ]
    tile = Tile(layout.row.pack(key.start_us, n, time_us, time_us, *fixed), tuple(objects))
    return Record(view.topic, 0, offset, 0, encode_key(key), encode_tile(layout, tile), None)
