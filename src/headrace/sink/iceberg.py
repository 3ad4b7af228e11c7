"""An Iceberg table: rows appended or replaced, with the offsets as properties of the table, in the same commit."""

from collections.abc import Iterable, Sequence
from functools import cached_property, reduce
from pathlib import Path
from typing import Any, ClassVar

import pyarrow as pa
from pyiceberg.catalog import Catalog
from pyiceberg.exceptions import CommitFailedException, NoSuchTableError, TableAlreadyExistsError
from pyiceberg.expressions import BooleanExpression
from pyiceberg.table import Table, Transaction
from sqlalchemy.exc import SQLAlchemyError

from headrace.declare.sink import OFFSET, PARTITION, Sink
from headrace.declare.table_files import ARROW_TYPES
from headrace.declare.targets import Iceberg
from headrace.lake.catalogue import MADE_ONCE, SHORT_HISTORY, catalogue_of, locked
from headrace.lake.iceberg_expressions import BOTH, EITHER, EQUALS, IS_IN
from headrace.lake.shapes import plain, widened
from headrace.log.placed import Place, Places
from headrace.log.records import Partition
from headrace.sink.new_columns import missing_columns
from headrace.sink.rows import Row
from headrace.sink.writer import Away, Moves, Rejected, SinkPlace, Writer, require_unmoved

CATALOGUE = "catalogue.db"
GONE = (OSError, SQLAlchemyError, ValueError)


class IcebergWriter(Writer):
    """Writes to one table of a folder's catalogue; each write is a commit, so rows are gathered for a second."""

    most_rows: ClassVar[int] = 2_000
    linger_s: ClassVar[float] = 1.0
    keeps_places: ClassVar[bool] = True

    def __init__(self, sink: Sink, place: SinkPlace) -> None:
        super().__init__(sink, place)
        target: Iceberg = sink.to  # type: ignore[assignment]  # chosen by it
        self._folder, self._name = Path(target.folder).resolve(), target.identifier
        self._own_table: Table | None = None

    def open(self) -> None:
        try:
            self._table().refresh()
        except GONE as failure:
            raise self._away(failure) from failure

    def places(self, partitions: Iterable[Partition]) -> Places:
        self.open()
        return {at: self._place(at) for at in partitions}

    def write(self, rows: Sequence[Row], moves: Moves | None = None) -> None:
        if not rows and not moves:
            return
        frame = self._frame(self.distinct(rows))
        self.open()
        if moves:
            require_unmoved(moves, {at: self._place(at) for at in moves}, self.sink)
        try:
            self._commit(frame, moves or {})
        except CommitFailedException as failure:
            if moves:
                require_unmoved(moves, self.places(moves), self.sink)
            raise self._away(failure) from failure
        except GONE as failure:
            self._own_table = None
            raise self._away(failure) from failure

    def close(self) -> None:
        if "_catalogue" in vars(self):
            self._catalogue.close()

    def _commit(self, frame: pa.Table, moves: Moves) -> None:
        """All of it in one transaction with a snapshot: who comes second finds another than the one it began with."""
        with self._table().transaction() as begun:
            if moves:
                begun.set_properties({self._property(at): _written(move.after) for at, move in moves.items()})
            news = self._winners(begun, frame) if self.sink.key and frame.num_rows else frame
            if news.num_rows:
                begun.append(news)
            elif moves:
                begun.update_snapshot().fast_append().commit()

    def _winners(self, begun: Transaction, frame: pa.Table) -> pa.Table:
        """The rows that win over those of their keys that are there, which are removed."""
        fields = (*self.sink.key, PARTITION, OFFSET)
        scan = self._table().scan(row_filter=_any_of(self.sink.key, frame), selected_fields=fields)
        there = {tuple(row[name] for name in self.sink.key): row for row in scan.to_arrow().to_pylist()}
        wins = [self._wins(row, there.get(tuple(row[name] for name in self.sink.key))) for row in frame.to_pylist()]
        news = frame.filter(pa.array(wins))
        replaced = [row for row in news.to_pylist() if tuple(row[name] for name in self.sink.key) in there]
        if replaced:
            begun.delete(_any_of(self.sink.key, pa.Table.from_pylist(replaced, frame.schema)))
        return news

    def _wins(self, row: dict[str, Any], held: dict[str, Any] | None) -> bool:
        if held is None:
            return True
        is_later = held[PARTITION] != row[PARTITION] or held[OFFSET] < row[OFFSET]
        return self.sink.wins == "last" and is_later

    @cached_property
    def _catalogue(self) -> Catalog:
        return catalogue_of(self._folder / CATALOGUE)

    def _table(self) -> Table:
        """The table, made where it is missing, with columns that are new; one whose columns differ is not taken."""
        if self._own_table is None:
            table = self._found() or self._made()
            name = f"the table {self._name} in {str(self._folder)!r}"
            added = missing_columns(self._schema(), plain(table.schema().as_arrow()), name, self.sink)
            if added:
                with table.update_schema() as change:
                    change.union_by_name(pa.schema(added))
            if not MADE_ONCE.items() <= table.properties.items():
                table.transaction().set_properties(MADE_ONCE).commit_transaction()
            self._own_table = table
        return self._own_table

    def _found(self) -> Table | None:
        try:
            return self._catalogue.load_table(self._name)
        except NoSuchTableError:
            return None

    def _made(self) -> Table:
        catalogue = self._catalogue
        with locked(self._folder):  # another copy may make it at the same moment
            catalogue.create_namespace_if_not_exists(self._name.rpartition(".")[0])
        try:
            return catalogue.create_table(self._name, self._schema(), properties={**MADE_ONCE, **SHORT_HISTORY})
        except TableAlreadyExistsError:  # another copy was quicker
            return self._catalogue.load_table(self._name)

    def _schema(self) -> pa.Schema:
        own = [(column.name, ARROW_TYPES[column.type]) for column in self.sink.schema]
        return widened(pa.schema([*own, (PARTITION, pa.int32()), (OFFSET, pa.int64())]))

    def _frame(self, rows: Sequence[Row]) -> pa.Table:
        written = [row.values | {PARTITION: row.partition, OFFSET: row.offset} for row in rows]
        try:
            return pa.Table.from_pylist(written, self._schema())
        except (pa.ArrowException, OverflowError) as wrong:
            raise Rejected(f"rejected: {wrong}") from wrong

    def _place(self, at: Partition) -> Place:
        found = self._table().properties.get(self._property(at))
        return Place(*map(int, found.split())) if found else Place()

    def _property(self, at: Partition) -> str:
        return f"headrace.{self.sink.slug}.{at.topic}/{at.number}"

    def _away(self, failure: Any) -> Away:
        return Away(
            f"{self.sink.name}: the Iceberg table {self._name} in {str(self._folder)!r} takes no rows: {failure}."
        )


def _written(place: Place) -> str:
    return " ".join(map(str, place))


def _any_of(key: Sequence[str], frame: pa.Table) -> BooleanExpression:
    """Whether a row has one of the keys of a frame."""
    if len(key) == 1:
        return IS_IN(key[0], set(frame[key[0]].to_pylist()))
    each = [reduce(BOTH, (EQUALS(name, row[name]) for name in key)) for row in frame.select(list(key)).to_pylist()]
    return reduce(EITHER, each)
