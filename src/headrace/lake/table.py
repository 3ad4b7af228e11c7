"""One table of the lake: made, widened, read and committed to, in the format that its lake has.

How far a topic has landed is part of the table: each commit carries, for every partition, the last offset in it.
Files and positions become true in one step, so there is no checkpoint that could disagree.
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
from headrace.lake.landing import DAY, OFFSET, PARTITION, Landing
from headrace.lake.logs import TableLog, log_of
from headrace.lake.shapes import schema_of, spark_word

UNFINISHED = "_unfinished"  # where executors write; what begins with an underscore is no part of a table
FORBIDDEN = set(' ,;{}()\n\t="')


class UnfitForTheLake(HeadraceError):
    """A declaration whose events cannot be added to the table that is there."""


@dataclass(frozen=True)
class Position:
    """How far a partition has landed: the last offset read of the topic, and the last hr_offset in the table."""

    read: int = -1
    landed: int = -1


class LakeTable:
    """The table of a landing, as it was when last looked at; `begins` are offsets before which no row counts."""

    def __init__(self, lake: Path, landing: Landing, begins: Mapping[int, int] | None = None) -> None:
        self.landing, self._begins = landing, begins or {}
        self.folder = (lake / landing.table).resolve()

    @cached_property
    def log(self) -> TableLog:
        return log_of(self.folder)

    def reopen(self) -> None:
        """Forget what is known of the table: it may have been moved away, or mended, by others."""
        self.__dict__.pop("log", None)

    def prepare(self) -> None:
        """Make the table, or add the columns it lacks; refuse what older files contradict. Removes a crash's scraps.

        Where its topic was computed again, what had landed before is removed too: training reads what is served.
        """
        self.require_fitting()
        self.log.make(self.log.fitted(schema_of(self.landing)))
        shutil.rmtree(self.folder / UNFINISHED, ignore_errors=True)
        self._forget_earlier_runs()

    def _forget_earlier_runs(self) -> None:
        earlier = [
            (pc.field(PARTITION) == number) & (pc.field(OFFSET) < offset) for number, offset in self._begins.items()
        ]
        if earlier and any(batch.num_rows for batch in self.rows([OFFSET], reduce(or_, earlier))):
            self.log.forget_offsets(self._begins)

    def require_fitting(self) -> None:
        """Refuse a landing whose columns a table cannot have, or not beside those it has."""
        _require_names(self.landing)
        found = self.log.columns()
        if found is not None:
            _require_compatible(self.landing, self.log.fitted(schema_of(self.landing)), found, self.folder)

    def positions(self, partitions: Sequence[int]) -> dict[int, Position]:
        """How far each partition has landed now."""
        self.log.refresh()
        topic, counts = self.landing.topic, self.landing.counts
        return {number: Position(self._last(topic, number), self._last(counts, number)) for number in partitions}

    def _last(self, topic: str, partition: int) -> int:
        return self.log.place(_position_name(topic, partition))

    def commit(self, files: Sequence[Path], positions: Mapping[int, Position]) -> None:
        """Add files and move the positions, both or neither; fails where somebody else has moved them since."""
        landing = self.landing
        moved = {_position_name(landing.topic, number): position.read for number, position in positions.items()}
        if landing.may_replay:
            moved |= {_position_name(landing.counts, number): place.landed for number, place in positions.items()}
        with self.removing_uncommitted(files):
            self.log.add(files, moved)

    @contextmanager
    def removing_uncommitted(self, files: Sequence[Path]) -> Iterator[None]:
        """Remove new files where what is done with them fails before they are part of the table."""
        try:
            yield
        except Exception:
            with suppress(Exception):  # what is not removed now, maintenance removes after a day
                self._remove_uncommitted(files)
            raise

    def _remove_uncommitted(self, files: Sequence[Path]) -> None:
        committed = {file.path for file in log_of(self.folder).files()}  # a commit may fail once it is made
        for file in files:
            if file not in committed:
                file.unlink(missing_ok=True)

    def rows(self, columns: Sequence[str], where: pc.Expression) -> Iterator[pa.RecordBatch]:
        """Some columns of the rows that a condition holds for, without Spark; days it cannot hold for are not read."""
        days = ds.partitioning(pa.schema([(DAY, pa.date32())]), flavor="hive")
        files = [str(file.path) for file in self.log.files()]
        source = ds.dataset(
            files, schema_of(self.landing), format="parquet", partitioning=days, partition_base_dir=str(self.folder)
        )
        yield from source.to_batches(columns=list(columns), filter=where)


def _position_name(topic: str, partition: int) -> str:
    return f"headrace:{topic}/{partition}"


def _require_names(landing: Landing) -> None:
    names = [column.name.lower() for column in landing.columns]
    for name in names:
        if names.count(name) > 1:
            raise UnfitForTheLake(
                f"{landing.topic}: the table {landing.table} would have two columns named {name!r}: one is the lake's "
                "own, or they differ in case alone. Rename the stream's column, or start with --lake off."
            )
        if FORBIDDEN & set(name):
            raise UnfitForTheLake(
                f"{landing.topic}: column {name!r} has a character that tables do not allow in names. "
                "Rename it to letters, digits and underscores, or start with --lake off."
            )


def _require_compatible(landing: Landing, wanted: pa.Schema, found: pa.Schema, folder: Path) -> None:
    types = {field.name: field.type for field in wanted}
    for field in found:
        if types.get(field.name) == field.type:
            continue
        is_gone = field.name not in types
        change = "is gone" if is_gone else f"was {spark_word(field.type)}, is {spark_word(types[field.name])}"
        raise UnfitForTheLake(
            f"{landing.topic}: column {field.name!r} {change}, but the table at {str(folder)!r} has it as it was. "
            "Undo the change (a new column may take another name), move that folder away, or give another --lake DIR."
        )
