"""The book of a model's served vectors: its predictions counted into drift tiles, each once.

fraud.predictions   counted so far │ a step │ end now
                                   └────────┴──▶ parts of tiles ──▶ gold/fraud_drift: parts and offsets in one commit

A step that a crash ends has added nothing. What is added is never read again to be changed: a tile is the sum of its
parts, so a late vector costs no more than others, and memory holds a step and the hops of one window.
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

from headrace.declare.model import Model
from headrace.declare.names import gold_table
from headrace.errors import HeadraceError
from headrace.evaluate.drift.fold import MINUTE_US, fold
from headrace.evaluate.drift.layout import Layout, layout_of
from headrace.evaluate.drift.served import Vector, columns_of, read_vector
from headrace.evaluate.drift.tile import BrokenTile, Tile, TileKey, decode, decode_key, encode, encode_key
from headrace.evaluate.drift.window import Rows, Window, hop_of
from headrace.evaluate.repeats import Repeats
from headrace.lake.files import FIRST_US, day_of, exact_bounds
from headrace.lake.landing import DAY, LakeColumn, Landing
from headrace.lake.spans import Span, cut, waiting
from headrace.lake.table import LakeTable, Position
from headrace.log.between import records_between
from headrace.log.offsets import Offsets
from headrace.log.records import Partition, Record
from headrace.score.versions import Versions
from headrace.store.recent import Recent

LOGGER = logging.getLogger("headrace.evaluate")
RECORDS_A_STEP = 10_000
COUNTS_AT_ONCE = 4_000_000  # of a fold: bounds its memory, however many minutes the records of a step are of
VERSIONS_AT_MOST = 8
COUNTED, REPEATED, UNREADABLE, NO_CARD = "counted", "repeated", "unreadable", "no_card"


class NothingCounted(HeadraceError):
    """No vector of a model was counted where it was looked for."""


def drift_table(model: Model) -> Landing:
    """Parts of tiles, by the day they were counted; a tile is the sum of its parts."""
    columns = (
        *(LakeColumn(name, "string", name) for name in ("key", "value")),
        *(LakeColumn(name, "bigint", name) for name in ("n", "minute_us")),
        LakeColumn(DAY, "date", DAY),
    )
    return Landing(model.predictions, gold_table(model.name, "drift"), columns, model.predictions)


class Part(NamedTuple):
    """What some vectors add to a tile, as the table has it: of most of its bins nothing."""

    key: str
    value: str
    n: int
    minute_us: int


class Cards:
    """The layouts of a model's versions, read from their cards when they are first needed."""

    def __init__(self, model: Model, state: Path) -> None:
        self._versions = Versions(state, model.name)
        self._layouts: Recent[str, Layout] = Recent(VERSIONS_AT_MOST)
        self._told = ""

    def layout(self, version: str) -> Layout | None:
        """What a version is compared by; None where it has no card that says so."""
        known = self._layouts.get(version)
        if known is not None:
            return known
        try:
            known = self._layouts[version] = layout_of(self._versions.card(version))
        except HeadraceError as why:
            self._tell(str(why))
        return known

    def _tell(self, why: str) -> None:
        if why != self._told:
            LOGGER.warning("Drift is not told: %s", why)
            self._told = why


class VectorBook:
    """Counts the served vectors of one model, a step at a time, and holds those of its window."""

    def __init__(self, lake: Path, model: Model, state: Path, broker: str, most: int = RECORDS_A_STEP) -> None:
        self.model, self.cards, self.fates = model, Cards(model, state), Counter[str]()
        self.windows: Recent[str, Window] = Recent(VERSIONS_AT_MOST)
        self.newest_us = 0
        self._broker, self._most = broker, most
        self._offsets, self._repeats = Offsets(broker), Repeats()
        self._table = LakeTable(lake, drift_table(model))

    @property
    def folder(self) -> Path:
        return self._table.folder

    def open(self, clock_us: int) -> None:
        """Make the table ready, and take up what it has of the window."""
        self._table.prepare()
        self._repeats, self.windows = Repeats(), Recent(VERSIONS_AT_MOST)
        self.newest_us = newest_minute(self._table)
        now_us = self.now_us(clock_us)
        for part in parts_of(self._table, self._after_us(now_us), now_us):
            self._take(part)

    def now_us(self, clock_us: int) -> int:
        """When the window ends: now, or where a stream tells its own arrivals, with the newest that was counted."""
        return _now_us(self.model, clock_us, self.newest_us)

    def step(self, clock_us: int) -> int:
        """Count what has come, as much of it as a step takes; how many records are left."""
        positions, spans = waiting(self._table, self._offsets)
        taken = cut(spans, self._most)
        if taken:
            parts = self._counted(positions, taken)
            self.newest_us = max([self.newest_us, *(part.minute_us for part in parts)])
            now_us = self.now_us(clock_us)
            for part in parts:
                if part.minute_us > self._after_us(now_us):
                    self._take(part)
            self.forget(now_us)
        return sum(map(len, spans.values())) - sum(map(len, taken.values()))

    def _after_us(self, now_us: int) -> int:
        return _before_window(now_us, self.model.drift.window_us)

    def forget(self, now_us: int) -> None:
        """Let go of what is before the window, and of versions that have nothing in it."""
        for version, window in list(self.windows.items()):
            window.forget(now_us)
            if not len(window):
                del self.windows[version]

    def _counted(self, positions: Mapping[int, Position], spans: Mapping[int, Span]) -> list[Part]:
        """Count the records of some offsets, for good; what they have added."""
        vectors, fates, arrived_us = self._read(spans)
        parts = list(self._parts(vectors, fates))
        files = [written(parts, self._table.folder, arrived_us)] if parts else []
        reached = {number: Position(span.stop - 1, positions[number].landed) for number, span in spans.items()}
        self._table.commit(files, reached)
        for number, span in spans.items():
            self._repeats.end(number, span.stop)
        self.fates.update(fates)
        return parts

    def _read(self, spans: Mapping[int, Span]) -> tuple[list[Vector], Counter[str], int]:
        """The vectors of some offsets, the first of each; what became of the records; when the last one came."""
        topic, fates, vectors, arrived_us = self.model.predictions, Counter[str](), list[Vector](), 0
        begins = {Partition(topic, number): self._repeats.begin(number, span.start) for number, span in spans.items()}
        ends = {Partition(topic, number): span.stop for number, span in spans.items()}
        for record in records_between(self._broker, begins, ends):
            vector = _vector(record)
            is_new = vector is not None and self._is_first(record, vector)
            if record.offset < spans[record.partition].start:
                continue  # read for what it told alone: it was counted before
            arrived_us = max(arrived_us, record.appended_us)
            if vector is None:
                fates[UNREADABLE] += 1
            elif is_new:
                vectors.append(vector)
            else:
                fates[REPEATED] += 1
        return vectors, fates, arrived_us

    def _is_first(self, record: Record, vector: Vector) -> bool:
        identity = (record.key or b"", vector.version.encode(errors="replace"), vector.role.encode(errors="replace"))
        return self._repeats.hear(record.partition, record.offset, *identity)

    def _parts(self, vectors: Sequence[Vector], fates: Counter[str]) -> Iterator[Part]:
        by_version: dict[str, list[Vector]] = {}
        for vector in vectors:
            by_version.setdefault(vector.version, []).append(vector)
        for version, of_version in by_version.items():
            layout = self.cards.layout(version)
            fates[COUNTED if layout else NO_CARD] += len(of_version)
            if layout is not None:
                yield from parts_from(layout, self.model, version, of_version)

    def _take(self, part: Part) -> None:
        """Have the rows of a part in the window of its version."""
        found = tile_of(part, self.cards)
        if found is not None:
            layout, key, tile = found
            if key.version not in self.windows:
                self.windows[key.version] = Window(layout, self.model.drift.window_us)
            self.windows[key.version].add(key.segment, key.minute_us, tile)


def _vector(record: Record) -> Vector | None:
    """The vector of a record; nothing has a time after the log took it."""
    vector = read_vector(record.value)
    if vector is None or record.key is None or vector.time_us <= FIRST_US:
        return None
    return vector._replace(time_us=min(vector.time_us, record.appended_us))


def parts_from(layout: Layout, model: Model, version: str, vectors: Sequence[Vector]) -> Iterator[Part]:
    """What vectors of one version add to its tiles, folded as many minutes at once as memory is meant for."""
    times_us = np.array([vector.time_us for vector in vectors], np.int64)
    order = np.argsort(times_us, kind="stable")
    minutes = times_us[order] // MINUTE_US
    number = np.cumsum(np.diff(minutes, prepend=minutes[0]) != 0)  # of the minutes that occur
    at_once = max(1, COUNTS_AT_ONCE // layout.width)
    for rows in np.split(order, np.flatnonzero(np.diff(number // at_once)) + 1):
        columns = columns_of(layout, model, [vectors[row] for row in rows.tolist()])
        for (segment, minute_us), tile in fold(layout, columns, times_us[rows]).items():
            key = encode_key(TileKey(model.name, version, segment, minute_us))
            yield Part(key.decode(), encode(layout, tile).decode(), tile.n, minute_us)


def written(parts: Sequence[Part], folder: Path, arrived_us: int) -> Path:
    """A file of parts, by the day their last record came: no event of theirs is later, and any may be earlier."""
    file = folder / f"{DAY}={day_of(arrived_us).isoformat()}" / f"{uuid4().hex}.parquet"
    file.parent.mkdir(exist_ok=True)
    pq.write_table(pa.Table.from_pylist([part._asdict() for part in parts]), file, compression="zstd")
    return file


def parts_of(table: LakeTable, after_us: int, to_us: int) -> Iterator[Part]:
    """The parts of all minutes that begin after one time and no later than another."""
    is_inside = (pc.field("minute_us") > after_us) & (pc.field("minute_us") <= to_us)
    is_inside &= pc.field(DAY) >= day_of(max(after_us, FIRST_US))  # nothing was counted before it was
    for batch in table.rows(Part._fields, is_inside):
        yield from (Part(**row) for row in batch.to_pylist())


class Sought(NamedTuple):
    """Which vectors are looked at: of which version, and of how long."""

    version: str
    window_us: int


def read_window(lake: Path, model: Model, cards: Cards, sought: Sought, clock_us: int) -> Rows:
    """What a lake has of a version's window now; nothing where it has no card."""
    layout, table = cards.layout(sought.version), _opened(lake, model)
    if layout is None:
        return {}
    window = Window(layout, sought.window_us)
    now_us = _now_us(model, clock_us, newest_minute(table))
    for part in parts_of(table, _before_window(now_us, sought.window_us), now_us):
        found = tile_of(part, cards)
        if found is not None and found[1].version == sought.version:
            window.add(found[1].segment, found[1].minute_us, found[2])
    return window.at(now_us)


def _now_us(model: Model, clock_us: int, newest_us: int) -> int:
    return newest_us if model.stream.is_recorded else clock_us


def _before_window(now_us: int, window_us: int) -> int:
    """Hops that begin by then have nothing in a window that ends now."""
    return now_us - window_us - hop_of(window_us)


def _opened(lake: Path, model: Model) -> LakeTable:
    table = LakeTable(lake, drift_table(model))
    if table.log.columns() is None:
        raise NothingCounted(
            f"There is no table at {str(table.folder)!r}: no vector was counted yet. Run `headrace up APP`, "
            "or give the folder it writes to with --lake DIR."
        )
    return table


def tile_of(part: Part, cards: Cards) -> tuple[Layout, TileKey, Tile] | None:
    """The tile that a part is of, and what it adds to it; None where there is no card to read it by."""
    try:
        key = decode_key(part.key.encode())
        layout = cards.layout(key.version)
        return None if layout is None else (layout, key, decode(layout, part.value.encode()))
    except BrokenTile as problem:
        LOGGER.warning("%s", problem)
        return None


def newest_minute(table: LakeTable) -> int:
    """The newest minute that was counted, 0 where none was."""
    bounds = [exact_bounds(pq.read_metadata(file.path)) for file in table.log.files()]
    return max((of_file["minute_us"][1] for of_file in bounds if "minute_us" in of_file), default=0)
