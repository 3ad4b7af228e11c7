"""Counts a model's served vectors: its predictions are folded into drift tiles, each exactly once.

fraud.predictions   counted so far │ a step │ end now
                                   └────────┴──▶ parts of tiles ──▶ gold/fraud_drift: parts and offsets in one commit

A step that a crash interrupts has added nothing. Written parts are never changed: a tile is the sum of its parts, so a
late vector costs no more than others, and memory holds a step and the hops of one window.
"""

import logging
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple
from uuid import uuid4

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from headrace.declare.models.model import Model
from headrace.declare.names import gold_table
from headrace.errors import HeadraceError
from headrace.kafka.consumers.offset_range import read_offset_range
from headrace.kafka.offsets import OffsetClient
from headrace.kafka.record import ConsumerRecord, Partition
from headrace.lake.formats.parquet_files import MIN_TIMESTAMP_US, exact_bounds, to_date
from headrace.lake.ingestion.pending_offsets import OffsetSpan, limit_spans, pending_spans
from headrace.lake.ingestion.table_mapping import DAY, LakeColumn, TableMapping
from headrace.lake.lake_table import LakeTable, TablePosition
from headrace.models.versions.version_store import VersionStore
from headrace.monitoring.drift.drift_fold import MINUTE_US, fold_rows
from headrace.monitoring.drift.drift_layout import DriftLayout, create_layout
from headrace.monitoring.drift.drift_tile import (
    BrokenDriftTileError,
    DriftTile,
    DriftTileKey,
    decode_key,
    decode_tile,
    encode_key,
    encode_tile,
)
from headrace.monitoring.drift.drift_window import DriftWindow, WindowTiles, window_hop_us
from headrace.monitoring.drift.served_columns import ServedVector, decode_vector, extract_columns
from headrace.monitoring.outcomes.duplicate_predictions import DuplicatePredictionFilter
from headrace.online_store.bounded_cache import BoundedCache

LOGGER = logging.getLogger("headrace.evaluate")
RECORDS_PER_STEP = 10_000
MAX_COUNTS_PER_FOLD = 4_000_000  # in a fold: limits its memory, however many minutes a step spans
MAX_VERSIONS = 8
COUNTED, REPEATED, UNREADABLE, NO_CARD = "counted", "repeated", "unreadable", "no_card"


class DriftTableMissing(HeadraceError):
    """The table of a model's drift has no counts yet."""


def drift_table(model: Model) -> TableMapping:
    """The table of tile parts, by the day they were counted; a tile is the sum of its parts."""
    columns = (
        *(LakeColumn(name, "string", name) for name in ("key", "value")),
        *(LakeColumn(name, "bigint", name) for name in ("n", "minute_us")),
        LakeColumn(DAY, "date", DAY),
    )
    return TableMapping(model.predictions, gold_table(model.name, "drift"), columns, model.predictions)


class DriftTilePart(NamedTuple):
    """The counts that some vectors add to a tile, stored sparsely."""

    key: str
    value: str
    n: int
    minute_us: int


class DriftLayoutCache:
    """The layouts of a model's versions, read from their cards on first use."""

    def __init__(self, model: Model, state: Path) -> None:
        self._versions = VersionStore(state, model.name)
        self._layouts: BoundedCache[str, DriftLayout] = BoundedCache(MAX_VERSIONS)
        self._last_warning = ""

    def get_layout(self, version: str) -> DriftLayout | None:
        """The layout of a version; None where its card has no reference distribution."""
        layout = self._layouts.get(version)
        if layout is not None:
            return layout
        try:
            layout = self._layouts[version] = create_layout(self._versions.load_card(version))
        except HeadraceError as failure:
            self._warn_once(str(failure))
        return layout

    def _warn_once(self, problem: str) -> None:
        if problem != self._last_warning:
            LOGGER.warning("Could not compute drift: %s", problem)
            self._last_warning = problem


class DriftWriter:
    """Counts the served vectors of one model, a step at a time, and keeps those of its window."""

    def __init__(self, lake: Path, model: Model, state: Path, broker: str, max_records: int = RECORDS_PER_STEP) -> None:
        self.model, self.layouts, self.record_counts = model, DriftLayoutCache(model, state), Counter[str]()
        self.windows: BoundedCache[str, DriftWindow] = BoundedCache(MAX_VERSIONS)
        self.newest_us = 0
        self._broker, self._max_records = broker, max_records
        self._offset_client, self._duplicate_filter = OffsetClient(broker), DuplicatePredictionFilter()
        self._table = LakeTable(lake, drift_table(model))

    @property
    def folder(self) -> Path:
        return self._table.folder

    def open(self, clock_us: int) -> None:
        """Prepare the table, and load the window from it."""
        self._table.prepare()
        self._duplicate_filter, self.windows = DuplicatePredictionFilter(), BoundedCache(MAX_VERSIONS)
        self.newest_us = newest_minute(self._table)
        now_us = self.now_us(clock_us)
        for part in read_parts(self._table, self._window_start_us(now_us), now_us):
            self._add_part(part)

    def now_us(self, clock_us: int) -> int:
        """The end of the window: now or, with recorded arrivals, the newest counted one."""
        return _window_end_us(self.model, clock_us, self.newest_us)

    def process_records(self, clock_us: int) -> int:
        """Count new records, up to the limit of a step; returns how many are left."""
        positions, spans = pending_spans(self._table, self._offset_client)
        step_spans = limit_spans(spans, self._max_records)
        if step_spans:
            parts = self._write_step(positions, step_spans)
            self.newest_us = max([self.newest_us, *(part.minute_us for part in parts)])
            now_us = self.now_us(clock_us)
            for part in parts:
                if part.minute_us > self._window_start_us(now_us):
                    self._add_part(part)
            self.forget_expired(now_us)
        return sum(map(len, spans.values())) - sum(map(len, step_spans.values()))

    def _window_start_us(self, now_us: int) -> int:
        return _window_start_us(now_us, self.model.drift.window_us)

    def forget_expired(self, now_us: int) -> None:
        """Drop tiles before the window, and versions without any."""
        for version, window in list(self.windows.items()):
            window.forget_expired(now_us)
            if not len(window):
                del self.windows[version]

    def _write_step(
        self, positions: Mapping[int, TablePosition], spans: Mapping[int, OffsetSpan]
    ) -> list[DriftTilePart]:
        """Count and commit the records of some offsets; returns the parts they added."""
        vectors, record_counts, arrived_us = self._read_vectors(spans)
        parts = list(self._create_parts(vectors, record_counts))
        files = [write_parts(parts, self._table.folder, arrived_us)] if parts else []
        new_positions = {
            partition: TablePosition(span.stop - 1, positions[partition].last_written)
            for partition, span in spans.items()
        }
        self._table.commit(files, new_positions)
        for number, span in spans.items():
            self._duplicate_filter.end_partition(number, span.stop)
        self.record_counts.update(record_counts)
        return parts

    def _read_vectors(self, spans: Mapping[int, OffsetSpan]) -> tuple[list[ServedVector], Counter[str], int]:
        """The distinct vectors of some offsets, the counts of records by outcome, and the last append time."""
        topic, record_counts, vectors, arrived_us = self.model.predictions, Counter[str](), list[ServedVector](), 0
        start_offsets = {
            Partition(topic, partition): self._duplicate_filter.begin_partition(partition, span.start)
            for partition, span in spans.items()
        }
        end_offsets = {Partition(topic, number): span.stop for number, span in spans.items()}
        for record in read_offset_range(self._broker, start_offsets, end_offsets):
            vector = _decode_record(record)
            is_new = vector is not None and self._is_first_record(record, vector)
            if record.offset < spans[record.partition].start:
                continue  # read only to detect repeats: it is counted already
            arrived_us = max(arrived_us, record.appended_us)
            if vector is None:
                record_counts[UNREADABLE] += 1
            elif is_new:
                vectors.append(vector)
            else:
                record_counts[REPEATED] += 1
        return vectors, record_counts, arrived_us

    def _is_first_record(self, record: ConsumerRecord, vector: ServedVector) -> bool:
        identity = (record.key or b"", vector.version.encode(errors="replace"), vector.role.encode(errors="replace"))
        return self._duplicate_filter.observe_record(record.partition, record.offset, *identity)

    def _create_parts(self, vectors: Sequence[ServedVector], record_counts: Counter[str]) -> Iterator[DriftTilePart]:
        vectors_by_version: dict[str, list[ServedVector]] = {}
        for vector in vectors:
            vectors_by_version.setdefault(vector.version, []).append(vector)
        for version, version_vectors in vectors_by_version.items():
            layout = self.layouts.get_layout(version)
            record_counts[COUNTED if layout else NO_CARD] += len(version_vectors)
            if layout is not None:
                yield from fold_parts(layout, self.model, version, version_vectors)

    def _add_part(self, part: DriftTilePart) -> None:
        """Add the rows of a part to the window of its version."""
        decoded = decode_part(part, self.layouts)
        if decoded is not None:
            layout, key, tile = decoded
            if key.version not in self.windows:
                self.windows[key.version] = DriftWindow(layout, self.model.drift.window_us)
            self.windows[key.version].add_tile(key.segment, key.minute_us, tile)


def _decode_record(record: ConsumerRecord) -> ServedVector | None:
    """The vector of a record; its time is at most the append time."""
    vector = decode_vector(record.value)
    if vector is None or record.key is None or vector.time_us <= MIN_TIMESTAMP_US:
        return None
    return vector._replace(time_us=min(vector.time_us, record.appended_us))


def fold_parts(
    layout: DriftLayout, model: Model, version: str, vectors: Sequence[ServedVector]
) -> Iterator[DriftTilePart]:
    """The parts of tiles from one version's vectors, folded in groups of minutes to limit memory."""
    times_us = np.array([vector.time_us for vector in vectors], np.int64)
    order = np.argsort(times_us, kind="stable")
    minutes = times_us[order] // MINUTE_US
    minute_numbers = np.cumsum(np.diff(minutes, prepend=minutes[0]) != 0)  # numbers of the distinct minutes
    minutes_per_fold = max(1, MAX_COUNTS_PER_FOLD // layout.width)
    for rows in np.split(order, np.flatnonzero(np.diff(minute_numbers // minutes_per_fold)) + 1):
        columns = extract_columns(layout, model, [vectors[row] for row in rows.tolist()])
        for (segment, minute_us), tile in fold_rows(layout, columns, times_us[rows]).items():
            key = encode_key(DriftTileKey(model.name, version, segment, minute_us))
            yield DriftTilePart(key.decode(), encode_tile(layout, tile).decode(), tile.n, minute_us)


def write_parts(parts: Sequence[DriftTilePart], folder: Path, arrived_us: int) -> Path:
    """Write parts to a file, by the day of their last record: no event in them is later, any may be earlier."""
    file = folder / f"{DAY}={to_date(arrived_us).isoformat()}" / f"{uuid4().hex}.parquet"
    file.parent.mkdir(exist_ok=True)
    pq.write_table(pa.Table.from_pylist([part._asdict() for part in parts]), file, compression="zstd")
    return file


def read_parts(table: LakeTable, after_us: int, to_us: int) -> Iterator[DriftTilePart]:
    """The parts of all minutes that start after one time and not after another."""
    is_inside = (pc.field("minute_us") > after_us) & (pc.field("minute_us") <= to_us)
    is_inside &= pc.field(DAY) >= to_date(max(after_us, MIN_TIMESTAMP_US))  # nothing is counted before it occurs
    for batch in table.scan_rows(DriftTilePart._fields, is_inside):
        yield from (DriftTilePart(**row) for row in batch.to_pylist())


class DriftWindowQuery(NamedTuple):
    """Which vectors to read: of which version, and over which window."""

    version: str
    window_us: int


def read_window(
    lake: Path, model: Model, layouts: DriftLayoutCache, query: DriftWindowQuery, clock_us: int
) -> WindowTiles:
    """The current window of a version in a lake; empty where it has no card."""
    layout, table = layouts.get_layout(query.version), _open_table(lake, model)
    if layout is None:
        return {}
    window = DriftWindow(layout, query.window_us)
    now_us = _window_end_us(model, clock_us, newest_minute(table))
    for part in read_parts(table, _window_start_us(now_us, query.window_us), now_us):
        decoded = decode_part(part, layouts)
        if decoded is not None and decoded[1].version == query.version:
            window.add_tile(decoded[1].segment, decoded[1].minute_us, decoded[2])
    return window.tiles_at(now_us)


def _window_end_us(model: Model, clock_us: int, newest_us: int) -> int:
    return newest_us if model.stream.is_recorded else clock_us


def _window_start_us(now_us: int, window_us: int) -> int:
    """The start of a window: hops that start at or before it are not in a window that ends now."""
    return now_us - window_us - window_hop_us(window_us)


def _open_table(lake: Path, model: Model) -> LakeTable:
    table = LakeTable(lake, drift_table(model))
    if table.format.read_schema() is None:
        raise DriftTableMissing(
            f"There is no table at {str(table.folder)!r}: no vector was counted yet. Run `headrace up APP`, "
            "or give the folder it writes to with --lake DIR."
        )
    return table


def decode_part(part: DriftTilePart, layouts: DriftLayoutCache) -> tuple[DriftLayout, DriftTileKey, DriftTile] | None:
    """The tile key of a part and its counts; None where there is no card to decode it."""
    try:
        key = decode_key(part.key.encode())
        layout = layouts.get_layout(key.version)
        return None if layout is None else (layout, key, decode_tile(layout, part.value.encode()))
    except BrokenDriftTileError as problem:
        LOGGER.warning("%s", problem)
        return None


def newest_minute(table: LakeTable) -> int:
    """The newest counted minute, 0 where there is none."""
    bounds = [exact_bounds(pq.read_metadata(file.path)) for file in table.format.list_files()]
    return max((file_bounds["minute_us"][1] for file_bounds in bounds if "minute_us" in file_bounds), default=0)
