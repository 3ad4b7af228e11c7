"""The book of a model's outcomes: every change of a batch and the tiles made of them, each batch once.

batch 41 ──▶ gold/fraud_outcomes   its changes  ┐ each with the batch's number in the same commit:
         ──▶ gold/fraud_quality    its tiles    ┘ a batch that comes again after a crash adds nothing
         ──▶ fraud.quality         the same tiles: absolute values, the greater n wins
         ──▶ fraud.lessons         of a model that learns: each first label with the vector it was served
"""

from collections.abc import Callable, Mapping, Sequence
from datetime import date
from pathlib import Path
from typing import NamedTuple
from uuid import uuid4

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from headrace.declare.model import Model
from headrace.declare.names import gold_table, query_name
from headrace.errors import HeadraceError
from headrace.evaluate.teach import Teacher
from headrace.lake.files import day_of
from headrace.lake.land import written
from headrace.lake.landing import DAY, SECONDS_A_DAY, LakeColumn, Landing
from headrace.lake.table import LakeTable, Position
from headrace.log.produce import Producer

STANDING = "standing"  # the one key that is no tile of quality: told in progress, not in the topic
DAYS_IN_MEMORY = 3
BATCH = 0  # the one partition of a table whose position is the number of a batch


class Tile(NamedTuple):
    """A tile as it is kept: how many changes are in it, the minute it is of, and its text."""

    n: int
    minute_us: int
    value: str


TILE_COLUMNS = ("key", *Tile._fields)
Tiles = Mapping[str, Tile]
Fold = Callable[[pa.Table, Tiles], Tiles]  # changes, and the tiles there are → those that are different now


class OtherState(HeadraceError):
    """A table of outcomes that was not made from the checkpoint that is there."""

    def __init__(self, model: str, folder: Path, checkpoint: Path) -> None:
        super().__init__(
            f"{model}: the table at {str(folder)!r} has outcomes, and the checkpoint at {str(checkpoint)!r} knows of "
            "none: all would be counted twice. Bring the checkpoint back, or move gold/"
            f"{model}_outcomes and gold/{model}_quality away and delete the topic {model}.quality: they are made again."
        )


def outcomes_table(model: Model) -> Landing:
    """Every change of a model's outcomes, by day of the prediction."""
    columns = (
        *(LakeColumn(name, "string", name) for name in ("id", "version", "role", "segment", "decision")),
        *(LakeColumn(name, "string", name) for name in ("state_before", "state_after", "features")),
        *(LakeColumn(name, "double", name) for name in ("score", "label_before", "label_after")),
        *(LakeColumn(name, "bigint", name) for name in ("minute_us", "label_delay_us")),
        LakeColumn(DAY, "date", f"date_from_unix_date(cast(floor(minute_us / {SECONDS_A_DAY * 1_000_000}) AS int))"),
    )
    name = query_name(model.name, "outcomes")
    return Landing(name, gold_table(model.name, "outcomes"), columns, name)


def quality_table(model: Model) -> Landing:
    """The tiles made of them; of several values of a key the one with the greatest n is the newest."""
    columns = (
        *(LakeColumn(name, "string", name) for name in ("key", "value")),
        *(LakeColumn(name, "bigint", name) for name in ("n", "minute_us")),
        LakeColumn(DAY, "date", DAY),
    )
    return Landing(model.quality, gold_table(model.name, "quality"), columns, model.quality)


class Book:
    """Writes the changes of batches down, and what they add up to."""

    def __init__(self, lake: Path, model: Model, folds: Sequence[Fold], producer: Producer) -> None:
        self.tiles: dict[str, Tile] = {}
        self._days: set[str] = set()  # whose tiles are in memory
        self._model, self._folds, self._producer = model, folds, producer
        self._outcomes = LakeTable(lake, outcomes_table(model))
        self._quality = LakeTable(lake, quality_table(model))
        self._teacher = None if model.learn is None else Teacher(model, producer.broker)

    @property
    def folders(self) -> list[Path]:
        return [self._outcomes.folder, self._quality.folder]

    def open(self, checkpoint: Path) -> None:
        """Make the tables ready, take up the tiles there are, and tell them again: a crash may have kept some back."""
        for table in (self._outcomes, self._quality):
            table.prepare()
            if _last_batch(table) >= 0 and not any((checkpoint / "offsets").glob("[0-9]*")):
                raise OtherState(self._model.name, table.folder, checkpoint)
        self.tiles, self._days = {}, set()
        days = {file.day for file in self._quality.log.files() if file.day is not None}
        if days:
            self._take_up(max(days).isoformat())
        self._publish(self.tiles)
        if self._teacher is not None:
            self._teacher.open(self._outcomes.log.identity)

    def enter(self, batch: DataFrame, number: int) -> None:
        """Write a batch down, unless it is known already; it is computed all the same, for Spark's state needs it."""
        files = written(batch.select(*_columns(self._outcomes.landing)), self._outcomes.folder)
        with self._outcomes.removing_uncommitted(files):
            changes = _read(files)
            if number <= _last_batch(self._outcomes):
                _discard(files)
            elif files:
                self._outcomes.commit(files, {BATCH: Position(read=number)})
        if changes.num_rows and number > _last_batch(self._quality):
            self._remember(changes)
            folded = [fold(changes, self.tiles) for fold in self._folds]
            self._enter_tiles({key: tile for tiles in folded for key, tile in tiles.items()}, number)
        if self._teacher is not None:
            self._teacher.teach(changes, number)

    def _remember(self, changes: pa.Table) -> None:
        """Have the tiles of those days that changes are about, and of others only those of the newest few."""
        for day in sorted(self._days)[:-DAYS_IN_MEMORY]:
            self._let_go(day)
        for day in {_day(minute_us) for minute_us in changes["minute_us"].unique().to_pylist()} - self._days:
            self._take_up(day)

    def _take_up(self, day: str) -> None:
        for batch in self._quality.rows(TILE_COLUMNS, pc.field(DAY) == date.fromisoformat(day)):
            take_newest(batch, self.tiles)
        self._days.add(day)

    def _let_go(self, day: str) -> None:
        self._days.remove(day)
        self.tiles = {key: tile for key, tile in self.tiles.items() if key == STANDING or _day(tile.minute_us) != day}

    def _enter_tiles(self, tiles: Tiles, number: int) -> None:
        self._quality.commit(_written_tiles(tiles, self._quality.folder), {BATCH: Position(read=number)})
        self.tiles.update(tiles)
        self._publish(tiles)

    def _publish(self, tiles: Tiles) -> None:
        for key, tile in tiles.items():
            if key != STANDING:
                self._producer.send(self._model.quality, tile.value.encode(), key=key)
        self._producer.flush()


def take_newest(rows: pa.RecordBatch, tiles: dict[str, Tile]) -> None:
    """Of every key the tile with the greatest n."""
    for row in rows.to_pylist():
        key, tile = row["key"], Tile(row["n"], row["minute_us"], row["value"])
        if key not in tiles or tile.n > tiles[key].n:
            tiles[key] = tile


def _last_batch(table: LakeTable) -> int:
    return table.positions([BATCH])[BATCH].read


def _columns(landing: Landing) -> list[Column]:
    return [F.expr(column.value).cast(column.type).alias(column.name) for column in landing.columns]


def _read(files: Sequence[Path]) -> pa.Table:
    return pa.concat_tables(pq.ParquetFile(file).read() for file in files) if files else pa.table({})


def _discard(files: Sequence[Path]) -> None:
    for file in files:
        file.unlink()


def _written_tiles(tiles: Tiles, folder: Path) -> list[Path]:
    """A file of tiles for each day that they are of."""
    days: dict[str, list[dict[str, object]]] = {}
    for key, tile in tiles.items():
        days.setdefault(_day(tile.minute_us), []).append({"key": key, **tile._asdict()})
    files = [folder / f"{DAY}={day}" / f"{uuid4().hex}.parquet" for day in days]
    for file, rows in zip(files, days.values(), strict=True):
        file.parent.mkdir(exist_ok=True)
        pq.write_table(pa.Table.from_pylist(rows), file, compression="zstd")
    return files


def _day(time_us: int) -> str:
    return day_of(time_us).isoformat()
