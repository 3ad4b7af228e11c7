"""Folds the current rows of one entity of a captured table into tiles: changed tiles are folded again.

rows   7: Monday   8: Tuesday                     tiles   Monday n=1, Tuesday n=1
row 7 is updated on Friday ──▶ 7: Friday                  Monday n=2 (empty), Tuesday n=1, Friday n=1

A repeated change has an older offset than its row, and is skipped; deleted rows stay in state for a while for that.
The n of a tile counts the rows that came to it or left it, so that the newest tile has the greatest n and wins. Every
aggregate is correct, invertible or not, since it is folded from the current rows.
"""

import struct
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import orjson

from headrace.aggregates.json_values import from_json_value, to_json_value
from headrace.declare.durations import UNITS_US
from headrace.declare.expressions import field_names
from headrace.declare.features.retractable_views import OLD_ROW_INPUT, RetractableView
from headrace.declare.streams.change_capture import BEFORE_PREFIX, DELETED, LSN, OP
from headrace.operators.operator import InputEvent, Key, Operator, OutputEvent
from headrace.operators.windows.window_state import NEVER_US
from headrace.tiles.fold import fold_into_tiles, to_event_columns
from headrace.tiles.layout import HopLayout, stream_layouts
from headrace.tiles.tile import FeatureTileKey, encode_key, encode_tile

TILES_OUTPUT = "tiles"
IMMEDIATELY_US = 0  # due as soon as the current batch is processed
RETENTION_MARGIN_US = UNITS_US["d"]
DELETED_ROW_RETENTION_US = 10 * UNITS_US["m"]  # for how long a deleted row stays in state
_HEAD = struct.Struct("<3q")  # n, newest event, newest arrival
_AFTER_START = 8

TileRef = tuple[int, int]  # the layout, and the start of the tile


class CapturedRow(NamedTuple):
    """A row after a change: the change's offset, its time, and the values; None once it is deleted."""

    version: int
    time_us: int
    values: list[Any] | None


@dataclass
class RetractingFoldState:
    """The rows of an entity, how often and when each tile changed, and which tiles are to be folded again."""

    rows: dict[str, CapturedRow] = field(default_factory=dict)
    tile_changes: dict[TileRef, tuple[int, int]] = field(default_factory=dict)
    dirty_tiles: dict[TileRef, None] = field(default_factory=dict)
    newest_us: int = 0


class RetractingFoldOperator(Operator[RetractingFoldState]):
    """Keeps the rows of each entity, and emits every tile that a change affects."""

    def __init__(self, spec: RetractableView) -> None:
        self._view, self._changes = spec.view, spec.changes
        self._layouts = stream_layouts(spec.changes, spec.view)
        self._columns = _columns_read(spec)
        self._kinds = [spec.view.schema.column(name, spec.view.name).kind for name in self._columns]

    def create_state(self) -> RetractingFoldState:
        return RetractingFoldState()

    def process_event(self, _key: Key, state: RetractingFoldState, event: InputEvent) -> Iterator[OutputEvent]:
        self._require_old_row(event)
        is_leaving = event.input_index == OLD_ROW_INPUT
        row_key = str(event.values[(BEFORE_PREFIX if is_leaving else "") + self._changes.key])
        lsn = event.values[LSN]
        version = event.offset if lsn is None else lsn
        known_row = state.rows.get(row_key)
        if known_row is not None and version < known_row.version:
            return iter(())
        state.newest_us = max(state.newest_us, event.time_us)
        if known_row is not None and known_row.values is not None:
            self._mark_tiles_dirty(state, known_row.time_us, event.time_us)
        is_deleted = is_leaving or event.values[DELETED]
        values = None if is_deleted else [event.values[column] for column in self._columns]
        state.rows[row_key] = CapturedRow(version, event.time_us, values)
        if not is_deleted:
            self._mark_tiles_dirty(state, event.time_us, event.time_us)
        return iter(())

    def next_timer_us(self, state: RetractingFoldState) -> int | None:
        return IMMEDIATELY_US if state.dirty_tiles else NEVER_US

    def on_timer(self, key: Key, state: RetractingFoldState, timer_us: int) -> Iterator[OutputEvent]:  # noqa: ARG002
        dirty_tiles, state.dirty_tiles = list(state.dirty_tiles), {}
        state.rows = {row_key: row for row_key, row in state.rows.items() if self._is_row_retained(state, row)}
        for tile_ref in dirty_tiles:
            yield self._tile_output(key, state, tile_ref)
        state.tile_changes = {
            place: tile_change
            for place, tile_change in state.tile_changes.items()
            if self._is_tile_retained(state, place)
        }

    def encode_state(self, state: RetractingFoldState) -> bytes:
        rows = {
            row_key: [
                row.version,
                row.time_us,
                None if row.values is None else [to_json_value(value) for value in row.values],
            ]
            for row_key, row in state.rows.items()
        }
        tiles = [[*tile_ref, *tile_change] for tile_ref, tile_change in state.tile_changes.items()]
        return orjson.dumps(
            {"rows": rows, "tiles": tiles, "touched": list(state.dirty_tiles), "newest": state.newest_us}
        )

    def decode_state(self, encoded: bytes) -> RetractingFoldState:
        decoded = orjson.loads(encoded)
        return RetractingFoldState(
            {
                row_key: CapturedRow(version, time_us, self._decode_values(encoded_values))
                for row_key, (version, time_us, encoded_values) in decoded["rows"].items()
            },
            {(layout, start_us): (n, at_us) for layout, start_us, n, at_us in decoded["tiles"]},
            dict.fromkeys((layout, start_us) for layout, start_us in decoded["touched"]),
            decoded["newest"],
        )

    def _decode_values(self, encoded: list[Any] | None) -> list[Any] | None:
        if encoded is None:
            return None
        return [from_json_value(value, kind) for value, kind in zip(encoded, self._kinds, strict=True)]

    def _require_old_row(self, event: InputEvent) -> None:
        if event.values[OP] == "u" and event.values[BEFORE_PREFIX + self._changes.key] is None:
            raise ValueError(
                "this update lacks the row before it, and so the entity it leaves: "
                "the table needs REPLICA IDENTITY FULL"
            )

    def _mark_tiles_dirty(self, state: RetractingFoldState, time_us: int, change_us: int) -> None:
        """Mark the tiles of a row's time to be folded again."""
        for layout_index, layout in enumerate(self._layouts):
            tile_ref = layout_index, time_us // layout.hop_us * layout.hop_us
            if self._is_tile_retained(state, tile_ref):
                n, last_us = state.tile_changes.get(tile_ref, (0, 0))
                state.tile_changes[tile_ref] = n + 1, max(last_us, change_us)
                state.dirty_tiles[tile_ref] = None

    def _is_tile_retained(self, state: RetractingFoldState, tile_ref: TileRef) -> bool:
        layout = self._layouts[tile_ref[0]]
        return layout.is_kept_forever or tile_ref[1] > state.newest_us - layout.retention_us - RETENTION_MARGIN_US

    def _is_row_retained(self, state: RetractingFoldState, row: CapturedRow) -> bool:
        """Whether a row is in any retained tile, or was deleted recently."""
        if row.values is None:
            return row.time_us > state.newest_us - DELETED_ROW_RETENTION_US
        tile_refs = (
            (layout_index, row.time_us // layout.hop_us * layout.hop_us)
            for layout_index, layout in enumerate(self._layouts)
        )
        return any(self._is_tile_retained(state, tile_ref) for tile_ref in tile_refs)

    def _tile_output(self, key: Key, state: RetractingFoldState, tile_ref: TileRef) -> OutputEvent:
        layout, start_us = self._layouts[tile_ref[0]], tile_ref[1]
        n, change_us = state.tile_changes[tile_ref]
        end_us = start_us + layout.hop_us
        tile_rows = [row for row in state.rows.values() if row.values is not None and start_us <= row.time_us < end_us]
        value = (
            self._fold_tile(key, tile_rows, layout, n, change_us)
            if tile_rows
            else orjson.dumps({"n": n, "t": change_us, "a": change_us})
        )
        tile_key = encode_key(FeatureTileKey(key, layout.hop_us, start_us, layout.version))
        return OutputEvent(
            TILES_OUTPUT, f"{tile_key.decode()}/{n}", change_us, change_us, {"tile": tile_key, "value": value}
        )

    def _fold_tile(self, key: Key, tile_rows: list[CapturedRow], layout: HopLayout, n: int, change_us: int) -> bytes:
        key_values = dict(zip(self._view.by, key, strict=True))
        events = [key_values | dict(zip(self._columns, row.values or [], strict=True)) for row in tile_rows]
        columns = to_event_columns(self._view, self._changes, events, [row.time_us for row in tile_rows])
        ((_, tile),) = fold_into_tiles(self._view, columns, [layout])
        row = bytearray(tile.row)
        _HEAD.pack_into(row, _AFTER_START, n, change_us, change_us)
        return encode_tile(layout, tile._replace(row=bytes(row)))


def _columns_read(spec: RetractableView) -> list[str]:
    """The columns of a row that its tiles are folded from."""
    slots = [slot for layout in stream_layouts(spec.changes, spec.view) for slot in layout.slots]
    columns = {slot.column for slot in slots if slot.column is not None}
    columns |= {name for slot in slots if slot.where is not None for name in field_names(slot.where)}
    return sorted({*columns, spec.changes.time, spec.changes.id} - set(spec.view.by))
