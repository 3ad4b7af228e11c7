"""Writes a model's outcomes: every change of a batch and the tiles folded from them, each batch exactly once.

batch 41 ──▶ gold/fraud_outcomes   its changes  ┐ each with the batch's number in the same commit:
         ──▶ gold/fraud_quality    its tiles    ┘ a batch that is repeated after a crash adds nothing
         ──▶ fraud.quality         the same tiles: absolute values, the greater n wins
         ──▶ fraud.lessons         of a model with online learning: each first label with the served vector
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

from headrace.declare.models.model import Model
from headrace.declare.names import gold_table, query_name
from headrace.errors import HeadraceError
from headrace.kafka.producer.producer import Producer
from headrace.lake.formats.parquet_files import to_date
from headrace.lake.ingestion.ingest_step import write_parquet_files
from headrace.lake.ingestion.table_mapping import DAY, SECONDS_PER_DAY, LakeColumn, TableMapping
from headrace.lake.lake_table import LakeTable, TablePosition
from headrace.monitoring.online_update_writer import OnlineUpdateWriter

COUNTS_KEY = "standing"  # the only key that is not a quality tile: reported in progress, not in the topic
MAX_DAYS_IN_MEMORY = 3
BATCH_PARTITION = 0  # the only partition of a table, whose position is the batch number


class OutcomeTile(NamedTuple):
    """A stored tile: the number of changes in it, its minute, and its text."""

    n: int
    minute_us: int
    value: str


TILE_COLUMNS = ("key", *OutcomeTile._fields)
OutcomeTiles = Mapping[str, OutcomeTile]
OutcomeFold = Callable[[pa.Table, OutcomeTiles], OutcomeTiles]  # changes and current tiles → changed tiles


class OutcomeCheckpointMismatchError(HeadraceError):
    """A table of outcomes that does not belong to the existing checkpoint."""

    def __init__(self, model: str, folder: Path, checkpoint: Path) -> None:
        super().__init__(
            f"{model}: the table at {str(folder)!r} has outcomes, and the checkpoint at {str(checkpoint)!r} knows of "
            "none: all would be counted twice. Bring the checkpoint back, or move gold/"
            f"{model}_outcomes and gold/{model}_quality away and delete the topic {model}.quality: they are made again."
        )


def outcomes_table(model: Model) -> TableMapping:
    """The table of every change of a model's outcomes, by day of the prediction."""
    columns = (
        *(LakeColumn(name, "string", name) for name in ("id", "version", "role", "segment", "decision")),
        *(LakeColumn(name, "string", name) for name in ("state_before", "state_after", "features")),
        *(LakeColumn(name, "double", name) for name in ("score", "label_before", "label_after")),
        *(LakeColumn(name, "bigint", name) for name in ("minute_us", "label_delay_us")),
        LakeColumn(DAY, "date", f"date_from_unix_date(cast(floor(minute_us / {SECONDS_PER_DAY * 1_000_000}) AS int))"),
    )
    name = query_name(model.name, "outcomes")
    return TableMapping(name, gold_table(model.name, "outcomes"), columns, name)


def quality_table(model: Model) -> TableMapping:
    """The table of the folded tiles; among several values of a key the one with the greatest n is the newest."""
    columns = (
        *(LakeColumn(name, "string", name) for name in ("key", "value")),
        *(LakeColumn(name, "bigint", name) for name in ("n", "minute_us")),
        LakeColumn(DAY, "date", DAY),
    )
    return TableMapping(model.quality, gold_table(model.name, "quality"), columns, model.quality)


class OutcomeWriter:
    """Writes the changes of batches, and the tiles folded from them."""

    def __init__(self, lake: Path, model: Model, folds: Sequence[OutcomeFold], producer: Producer) -> None:
        self.tiles: dict[str, OutcomeTile] = {}
        self._loaded_days: set[str] = set()  # with tiles in memory
        self._model, self._folds, self._producer = model, folds, producer
        self._outcomes_table = LakeTable(lake, outcomes_table(model))
        self._quality_table = LakeTable(lake, quality_table(model))
        self._update_writer = None if model.learn is None else OnlineUpdateWriter(model, producer.broker)

    @property
    def folders(self) -> list[Path]:
        return [self._outcomes_table.folder, self._quality_table.folder]

    def open(self, checkpoint: Path) -> None:
        """Prepare the tables, load the current tiles, and publish them again: a crash may have withheld some."""
        for table in (self._outcomes_table, self._quality_table):
            table.prepare()
            if _last_batch_number(table) >= 0 and not any((checkpoint / "offsets").glob("[0-9]*")):
                raise OutcomeCheckpointMismatchError(self._model.name, table.folder, checkpoint)
        self.tiles, self._loaded_days = {}, set()
        days = {file.day for file in self._quality_table.format.list_files() if file.day is not None}
        if days:
            self._load_day(max(days).isoformat())
        self._publish_tiles(self.tiles)
        if self._update_writer is not None:
            self._update_writer.open(self._outcomes_table.format.identity)

    def write_batch(self, batch: DataFrame, batch_number: int) -> None:
        """Write a batch unless it is written already; it is computed anyway, since Spark's state needs it."""
        files = write_parquet_files(
            batch.select(*_mapping_columns(self._outcomes_table.mapping)), self._outcomes_table.folder
        )
        with self._outcomes_table.remove_on_failure(files):
            changes = _read_files(files)
            if batch_number <= _last_batch_number(self._outcomes_table):
                _delete_files(files)
            elif files:
                self._outcomes_table.commit(files, {BATCH_PARTITION: TablePosition(last_read=batch_number)})
        if changes.num_rows and batch_number > _last_batch_number(self._quality_table):
            self._load_changed_days(changes)
            changed_tiles = [fold(changes, self.tiles) for fold in self._folds]
            self._write_tiles({key: tile for tiles in changed_tiles for key, tile in tiles.items()}, batch_number)
        if self._update_writer is not None:
            self._update_writer.write_updates(changes, batch_number)

    def _load_changed_days(self, changes: pa.Table) -> None:
        """Load the tiles of the days with changes, and of other days only the newest few."""
        for day in sorted(self._loaded_days)[:-MAX_DAYS_IN_MEMORY]:
            self._unload_day(day)
        for day in {
            _day_text(minute_us) for minute_us in changes["minute_us"].unique().to_pylist()
        } - self._loaded_days:
            self._load_day(day)

    def _load_day(self, day: str) -> None:
        for batch in self._quality_table.scan_rows(TILE_COLUMNS, pc.field(DAY) == date.fromisoformat(day)):
            merge_newest(batch, self.tiles)
        self._loaded_days.add(day)

    def _unload_day(self, day: str) -> None:
        self._loaded_days.remove(day)
        self.tiles = {
            key: tile for key, tile in self.tiles.items() if key == COUNTS_KEY or _day_text(tile.minute_us) != day
        }

    def _write_tiles(self, tiles: OutcomeTiles, batch_number: int) -> None:
        self._quality_table.commit(
            _write_tile_files(tiles, self._quality_table.folder),
            {BATCH_PARTITION: TablePosition(last_read=batch_number)},
        )
        self.tiles.update(tiles)
        self._publish_tiles(tiles)

    def _publish_tiles(self, tiles: OutcomeTiles) -> None:
        for key, tile in tiles.items():
            if key != COUNTS_KEY:
                self._producer.send(self._model.quality, tile.value.encode(), key=key)
        self._producer.flush()


def merge_newest(rows: pa.RecordBatch, tiles: dict[str, OutcomeTile]) -> None:
    """For every key the tile with the greatest n."""
    for row in rows.to_pylist():
        key, tile = row["key"], OutcomeTile(row["n"], row["minute_us"], row["value"])
        if key not in tiles or tile.n > tiles[key].n:
            tiles[key] = tile


def _last_batch_number(table: LakeTable) -> int:
    return table.positions([BATCH_PARTITION])[BATCH_PARTITION].last_read


def _mapping_columns(mapping: TableMapping) -> list[Column]:
    return [F.expr(column.expression).cast(column.type).alias(column.name) for column in mapping.columns]


def _read_files(files: Sequence[Path]) -> pa.Table:
    return pa.concat_tables(pq.ParquetFile(file).read() for file in files) if files else pa.table({})


def _delete_files(files: Sequence[Path]) -> None:
    for file in files:
        file.unlink()


def _write_tile_files(tiles: OutcomeTiles, folder: Path) -> list[Path]:
    """Write a file of tiles for each day."""
    rows_by_day: dict[str, list[dict[str, object]]] = {}
    for key, tile in tiles.items():
        rows_by_day.setdefault(_day_text(tile.minute_us), []).append({"key": key, **tile._asdict()})
    files = [folder / f"{DAY}={day}" / f"{uuid4().hex}.parquet" for day in rows_by_day]
    for file, rows in zip(files, rows_by_day.values(), strict=True):
        file.parent.mkdir(exist_ok=True)
        pq.write_table(pa.Table.from_pylist(rows), file, compression="zstd")
    return files


def _day_text(time_us: int) -> str:
    return to_date(time_us).isoformat()
