"""One table of the lake: created, extended, read and committed to, in the format of its lake.

The ingested offsets are part of the table: each commit has, for every partition, the last offset in it. Files and
offsets are committed atomically, so that no checkpoint can disagree.
"""

import shutil
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import cached_property, reduce
from operator import or_
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds

from headrace.errors import HeadraceError
from headrace.lake.formats.arrow_schemas import arrow_schema, spark_type_name
from headrace.lake.formats.table_format import TableFormat, open_table_format
from headrace.lake.ingestion.table_mapping import DAY, OFFSET, PARTITION, TableMapping

UNFINISHED_FOLDER = "_unfinished"  # where executors write; folders with an underscore are not part of a table
FORBIDDEN_CHARACTERS = set(' ,;{}()\n\t="')


class IncompatibleTableError(HeadraceError):
    """A declaration whose rows cannot be added to the existing table."""


@dataclass(frozen=True)
class TablePosition:
    """The position of a partition: the last offset read from the topic, and the last hr_offset in the table."""

    last_read: int = -1
    last_written: int = -1


class LakeTable:
    """The table of a mapping, as last opened; `first_offsets` are offsets before which no row counts."""

    def __init__(self, lake: Path, mapping: TableMapping, first_offsets: Mapping[int, int] | None = None) -> None:
        self.mapping, self._first_offsets = mapping, first_offsets or {}
        self.folder = (lake / mapping.table).resolve()

    @cached_property
    def format(self) -> TableFormat:
        return open_table_format(self.folder)

    def reopen(self) -> None:
        """Drop the cached table: another process may have moved or repaired it."""
        self.__dict__.pop("format", None)

    def prepare(self) -> None:
        """Create the table, or add missing columns; raises on incompatible ones. Removes leftovers of a crash.

        Where its topic was rebuilt, rows of before are removed too: training must read what is served.
        """
        self.require_compatible()
        self.format.ensure_table(self.format.to_storable_schema(arrow_schema(self.mapping)))
        shutil.rmtree(self.folder / UNFINISHED_FOLDER, ignore_errors=True)
        self._delete_earlier_runs()

    def _delete_earlier_runs(self) -> None:
        conditions = [
            (pc.field(PARTITION) == partition) & (pc.field(OFFSET) < offset)
            for partition, offset in self._first_offsets.items()
        ]
        if conditions and any(batch.num_rows for batch in self.scan_rows([OFFSET], reduce(or_, conditions))):
            self.format.delete_offsets_before(self._first_offsets)

    def require_compatible(self) -> None:
        """Reject a mapping whose columns a table cannot have, or which contradict the existing ones."""
        _require_valid_names(self.mapping)
        existing = self.format.read_schema()
        if existing is not None:
            _require_compatible_columns(
                self.mapping, self.format.to_storable_schema(arrow_schema(self.mapping)), existing, self.folder
            )

    def positions(self, partitions: Sequence[int]) -> dict[int, TablePosition]:
        """The current position of each partition."""
        self.format.refresh()
        topic, offset_topic = self.mapping.topic, self.mapping.offset_topic
        return {
            partition: TablePosition(
                self._committed_offset(topic, partition), self._committed_offset(offset_topic, partition)
            )
            for partition in partitions
        }

    def _committed_offset(self, topic: str, partition: int) -> int:
        return self.format.committed_position(_position_name(topic, partition))

    def commit(self, files: Sequence[Path], positions: Mapping[int, TablePosition]) -> None:
        """Add files and advance the positions, atomically; fails where another process has advanced them."""
        mapping = self.mapping
        new_positions = {
            _position_name(mapping.topic, partition): position.last_read for partition, position in positions.items()
        }
        if mapping.may_replay:
            new_positions |= {
                _position_name(mapping.offset_topic, number): table_position.last_written
                for number, table_position in positions.items()
            }
        with self.remove_on_failure(files):
            self.format.commit_files(files, new_positions)

    @contextmanager
    def remove_on_failure(self, files: Sequence[Path]) -> Iterator[None]:
        """Remove new files if the block fails before they are part of the table."""
        try:
            yield
        except Exception:
            with suppress(Exception):  # maintenance removes leftovers after a day
                self._remove_uncommitted(files)
            raise

    def _remove_uncommitted(self, files: Sequence[Path]) -> None:
        committed = {
            file.path for file in open_table_format(self.folder).list_files()
        }  # a commit may report a failure after it succeeded
        for file in files:
            if file not in committed:
                file.unlink(missing_ok=True)

    def scan_rows(self, columns: Sequence[str], where: pc.Expression) -> Iterator[pa.RecordBatch]:
        """Some columns of the rows that match a condition, without Spark; days that cannot match are not read."""
        day_partitioning = ds.partitioning(pa.schema([(DAY, pa.date32())]), flavor="hive")
        files = [str(file.path) for file in self.format.list_files()]
        dataset = ds.dataset(
            files,
            arrow_schema(self.mapping),
            format="parquet",
            partitioning=day_partitioning,
            partition_base_dir=str(self.folder),
        )
        yield from dataset.to_batches(columns=list(columns), filter=where)


def _position_name(topic: str, partition: int) -> str:
    return f"headrace:{topic}/{partition}"


def _require_valid_names(mapping: TableMapping) -> None:
    names = [column.name.lower() for column in mapping.columns]
    for name in names:
        if names.count(name) > 1:
            raise IncompatibleTableError(
                f"{mapping.topic}: the table {mapping.table} would have two columns named {name!r}: one is the lake's "
                "own, or they differ in case alone. Rename the stream's column, or start with --lake off."
            )
        if FORBIDDEN_CHARACTERS & set(name):
            raise IncompatibleTableError(
                f"{mapping.topic}: column {name!r} has a character that tables do not allow in names. "
                "Rename it to letters, digits and underscores, or start with --lake off."
            )


def _require_compatible_columns(mapping: TableMapping, expected: pa.Schema, existing: pa.Schema, folder: Path) -> None:
    types = {field.name: field.type for field in expected}
    for field in existing:
        if types.get(field.name) == field.type:
            continue
        is_gone = field.name not in types
        change = "is gone" if is_gone else f"was {spark_type_name(field.type)}, is {spark_type_name(types[field.name])}"
        raise IncompatibleTableError(
            f"{mapping.topic}: column {field.name!r} {change}, but the table at {str(folder)!r} has it as it was. "
            "Undo the change (a new column may take another name), move that folder away, or give another --lake DIR."
        )
