"""Changelog records in Spark's format: each event makes a new version of its tile in every hop."""

import os
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import count

import headrace as hr
from headrace.aggregates.partial import StoredObject
from headrace.aggregates.selection.occurrences import OccurrencePartial
from headrace.kafka.record import ConsumerRecord
from headrace.tiles.layout import hop_layouts
from headrace.tiles.tile import FeatureTile, FeatureTileKey, encode_key, encode_tile

MINUTE_US = 60_000_000
T0_US = 1_767_225_600_000_000

payments = hr.Stream(
    "payments", schema="id string, card string, amount double, at timestamp", id="id", key="card", time="at"
)

LAST = OccurrencePartial(is_first=False)


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


def changelog(events: Iterable[Event], view: hr.View = Spend) -> list[ConsumerRecord]:
    """The tiles after each event, in the order they would be written; each event's amount is 1.5."""
    counts: dict[FeatureTileKey, int] = {}
    records: list[ConsumerRecord] = []
    for event in events:
        for layout in hop_layouts(view):
            start_us = event.time_us // layout.hop_us * layout.hop_us
            key = FeatureTileKey((event.card,), layout.hop_us, start_us, layout.version)
            counts[key] = counts.get(key, 0) + 1
            records.append(tile_record(view, key, counts[key], event.time_us, len(records)))
    return records


def tile_record(view: hr.View, key: FeatureTileKey, n: int, time_us: int, offset: int = 0) -> ConsumerRecord:
    """One version of a tile: n payments of 1.5 each."""
    (layout,) = [layout for layout in hop_layouts(view) if layout.version == key.version]
    fixed = [n if block.store == "int" else n * 1.5 for _, block in layout.fixed_columns]
    objects: Sequence[StoredObject] = [
        (time_us, f"p{n:03}", float("nan") if n == 2 else n * 1.5)
        if slot.partial == OccurrencePartial(is_first=False)
        else "text"
        for _, slot in layout.object_slots
    ]
    tile = FeatureTile(layout.row_struct.pack(key.start_us, n, time_us, time_us, *fixed), tuple(objects))
    return ConsumerRecord(view.topic, 0, offset, 0, encode_key(key), encode_tile(layout, tile), None)
