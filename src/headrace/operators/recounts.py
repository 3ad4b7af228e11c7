"""The rows of one entity of a captured table, and the tiles they are folded into: what changes is folded again.

rows   7: Monday   8: Tuesday                     tiles   Monday n=1, Tuesday n=1
row 7 is updated on Friday ──▶ 7: Friday                  Monday n=2 (empty), Tuesday n=1, Friday n=1

A change that is told again is at an older place than what is known of its row, and passed over; rows that have gone are
remembered for a while for that. The n of a tile is how often a row came to it or left it, so the newest is the
greatest, and wins. Any aggregate is right, whether it can be undone or not, for it is folded from the rows there are.
"""

import struct
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import orjson

from headrace.declare.changes import BEFORE, DELETED, LSN, OP
from headrace.declare.durations import UNITS_US
from headrace.declare.expressions import fields
from headrace.declare.recounted import LEAVING, Recount
from headrace.operators.operator import Arrived, Key, Made, Operator
from headrace.operators.plain import from_plain, plain
from headrace.operators.spans import NEVER_US
from headrace.tiles.fold import events_of, fold
from headrace.tiles.layout import HopLayout, fed_by
from headrace.tiles.tile import TileKey, encode_key, encode_tile

TILES = "tiles"
AT_ONCE_US = 0  # due as soon as all that came together is taken
SPARE_US = UNITS_US["d"]
GONE_US = 10 * UNITS_US["m"]  # for how long it is remembered that a row has gone
_HEAD = struct.Struct("<3q")  # n, newest event, newest arrival
_AFTER_START = 8

Place = tuple[int, int]  # which layout, and where its tile starts


class Row(NamedTuple):
    """A row since a change: where that stands in the log, when it was, and its values; None once it is gone."""

    version: int
    time_us: int
    values: list[Any] | None


@dataclass
class Rows:
    """The rows of an entity, how often each tile was touched and when last, and which are to be folded again."""

    rows: dict[str, Row] = field(default_factory=dict)
    tiles: dict[Place, tuple[int, int]] = field(default_factory=dict)
    touched: dict[Place, None] = field(default_factory=dict)
    newest_us: int = 0


class Recounts(Operator[Rows]):
    """Keeps the rows of each entity, and tells of every tile that a change touches."""

    def __init__(self, what: Recount) -> None:
        self._view, self._changes = what.view, what.changes
        self._layouts = fed_by(what.changes, what.view)
        self._columns = _read_by(what)
        self._kinds = [what.view.schema.column(name, what.view.name).kind for name in self._columns]

    def begin(self) -> Rows:
        return Rows()

    def take(self, _key: Key, kept: Rows, event: Arrived) -> Iterator[Made]:
        self._require_before(event)
        is_leaving = event.source == LEAVING
        name = str(event.values[(BEFORE if is_leaving else "") + self._changes.key])
        lsn = event.values[LSN]
        version = event.offset if lsn is None else lsn
        known = kept.rows.get(name)
        if known is not None and version < known.version:
            return iter(())
        kept.newest_us = max(kept.newest_us, event.time_us)
        if known is not None and known.values is not None:
            self._touch(kept, known.time_us, event.time_us)
        is_gone = is_leaving or event.values[DELETED]
        values = None if is_gone else [event.values[column] for column in self._columns]
        kept.rows[name] = Row(version, event.time_us, values)
        if not is_gone:
            self._touch(kept, event.time_us, event.time_us)
        return iter(())

    def due_us(self, kept: Rows) -> int | None:
        return AT_ONCE_US if kept.touched else NEVER_US

    def wake(self, key: Key, kept: Rows, at_us: int) -> Iterator[Made]:  # noqa: ARG002
        touched, kept.touched = list(kept.touched), {}
        kept.rows = {name: row for name, row in kept.rows.items() if self._is_worth(kept, row)}
        for place in touched:
            yield self._made(key, kept, place)
        kept.tiles = {place: told for place, told in kept.tiles.items() if self._is_kept(kept, place)}

    def packed(self, kept: Rows) -> bytes:
        rows = {
            name: [row.version, row.time_us, None if row.values is None else [plain(value) for value in row.values]]
            for name, row in kept.rows.items()
        }
        tiles = [[*place, *told] for place, told in kept.tiles.items()]
        return orjson.dumps({"rows": rows, "tiles": tiles, "touched": list(kept.touched), "newest": kept.newest_us})

    def unpacked(self, packed: bytes) -> Rows:
        read = orjson.loads(packed)
        return Rows(
            {
                name: Row(version, time_us, self._values(written))
                for name, (version, time_us, written) in read["rows"].items()
            },
            {(layout, start_us): (n, at_us) for layout, start_us, n, at_us in read["tiles"]},
            dict.fromkeys((layout, start_us) for layout, start_us in read["touched"]),
            read["newest"],
        )

    def _values(self, written: list[Any] | None) -> list[Any] | None:
        if written is None:
            return None
        return [from_plain(value, kind) for value, kind in zip(written, self._kinds, strict=True)]

    def _require_before(self, event: Arrived) -> None:
        if event.values[OP] == "u" and event.values[BEFORE + self._changes.key] is None:
            raise ValueError(
                "this update does not tell what the row was before, and so not whom it leaves: "
                "the table needs REPLICA IDENTITY FULL"
            )

    def _touch(self, kept: Rows, time_us: int, at_us: int) -> None:
        """Have the tiles that a row is in by its time folded again."""
        for number, layout in enumerate(self._layouts):
            place = number, time_us // layout.hop_us * layout.hop_us
            if self._is_kept(kept, place):
                n, last_us = kept.tiles.get(place, (0, 0))
                kept.tiles[place] = n + 1, max(last_us, at_us)
                kept.touched[place] = None

    def _is_kept(self, kept: Rows, place: Place) -> bool:
        layout = self._layouts[place[0]]
        return layout.is_kept_forever or place[1] > kept.newest_us - layout.keep_us - SPARE_US

    def _is_worth(self, kept: Rows, row: Row) -> bool:
        """Whether a row is in any tile that is kept, or has gone lately."""
        if row.values is None:
            return row.time_us > kept.newest_us - GONE_US
        starts = ((number, row.time_us // layout.hop_us * layout.hop_us) for number, layout in enumerate(self._layouts))
        return any(self._is_kept(kept, place) for place in starts)

    def _made(self, key: Key, kept: Rows, place: Place) -> Made:
        layout, start_us = self._layouts[place[0]], place[1]
        n, at_us = kept.tiles[place]
        end_us = start_us + layout.hop_us
        inside = [row for row in kept.rows.values() if row.values is not None and start_us <= row.time_us < end_us]
        written = (
            self._folded(key, inside, layout, n, at_us) if inside else orjson.dumps({"n": n, "t": at_us, "a": at_us})
        )
        tile = encode_key(TileKey(key, layout.hop_us, start_us, layout.version))
        return Made(TILES, f"{tile.decode()}/{n}", at_us, at_us, {"tile": tile, "value": written})

    def _folded(self, key: Key, inside: list[Row], layout: HopLayout, n: int, at_us: int) -> bytes:
        own = dict(zip(self._view.by, key, strict=True))
        events = [own | dict(zip(self._columns, row.values or [], strict=True)) for row in inside]
        columns = events_of(self._view, self._changes, events, [row.time_us for row in inside])
        ((_, tile),) = fold(self._view, columns, [layout])
        row = bytearray(tile.row)
        _HEAD.pack_into(row, _AFTER_START, n, at_us, at_us)
        return encode_tile(layout, tile._replace(row=bytes(row)))


def _read_by(what: Recount) -> list[str]:
    """The columns of a row that its tiles are folded from."""
    slots = [slot for layout in fed_by(what.changes, what.view) for slot in layout.slots]
    read = {slot.column for slot in slots if slot.column is not None}
    read |= {name for slot in slots if slot.where is not None for name in fields(slot.where)}
    return sorted({*read, what.changes.time, what.changes.id} - set(what.view.by))
